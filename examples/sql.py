# ---
# jupyter:
#   jupytext:
#     formats: py:percent,ipynb
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # From a SQL query to a SQL query
# A query selects rounds of many shops; a pass over its result adds the set that each would have been
# shown; another query asks where that went wrong. Here polars answers the queries; with DuckDB write
# `duckdb.sql(...)` instead. Needs `pip install 'keyhole-conformal[frames,parquet]' polars`.

# %%
import numpy as np
import polars as pl

from keyhole.integrations.tables import backtest, evaluate

rng = np.random.default_rng(3)
count, labels = 6_000, ["keep", "exchange", "return"]
chances = rng.dirichlet([4.0, 1.0, 1.5], size=count)
truths = [labels[rng.choice(3, p=row)] for row in chances]
claimed = np.sqrt(chances) / np.sqrt(chances).sum(axis=1, keepdims=True)  # a model that is too unsure
orders = pl.DataFrame(
    {
        "shop": rng.integers(20, size=count),
        "at": np.arange(count),
        **{name: claimed[:, place] for place, name in enumerate(labels)},
        "outcome": [None if rng.random() < 0.05 else truth for truth in truths],
        "price": rng.gamma(2.0, 20.0, size=count).round(2),
    }
)

# %% [markdown]
# The query selects; its order does not matter, because the pass sorts every key by its times.

# %%
rounds = pl.sql("SELECT * FROM orders WHERE price < 150 ORDER BY price").collect()
played = backtest(rounds, key="shop", output=labels, label="outcome", alpha=0.1, seed=7)
print(evaluate(played))

# %% [markdown]
# By key, and by anything else that SQL can group by.

# %%
print(evaluate(played, by="shop").head(3))
dear = """
    SELECT price > 60 AS dear, COUNT(miss) AS answered, AVG(miss) AS miss_rate, AVG(size) AS size
    FROM played GROUP BY price > 60 ORDER BY dear
"""
print(pl.sql(dear).collect())
