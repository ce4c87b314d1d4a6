# ---
# jupyter:
#   jupytext:
#     formats: py:percent,ipynb
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Intervals for a table of forecasts
# One row for each series and day, in the format of statsforecast: `unique_id`, `ds`, a column for each
# model, and `y` where it is known. Needs `pip install 'keyhole-conformal[frames,plot]' pandas`.

# %%
import numpy as np
import pandas as pd

from keyhole.integrations.frames import SeriesPredictors, evaluate

rng = np.random.default_rng(3)
days = pd.date_range("2026-01-01", periods=365)
series = []
for shop, spread in {"harbour": 5.0, "station": 20.0}.items():
    season = 100 + 30 * np.sin(2 * np.pi * days.day_of_year / 365)
    busy = spread * np.where(days.day_of_week >= 5, 2.0, 1.0)  # weekends are less certain
    sold = season + busy * rng.gamma(2.0, 0.7, size=days.size)
    table = pd.DataFrame({"unique_id": shop, "ds": days, "Season": season, "y": sold})
    series.append(table.assign(q10=season + 0.37 * busy, q90=season + 2.72 * busy))
table = pd.concat(series, ignore_index=True)
table.loc[table["ds"] >= "2026-12-18", "y"] = None

# %% [markdown]
# The same table, with two more columns for each level; rows without an outcome stay open. Every
# interval is the one that you would have got on that day: it depends on earlier outcomes only.

# %%
predictors = SeriesPredictors(levels=[80, 95], asymmetric=True, seed=7)
added = predictors.add_intervals(table, "Season")
columns = ["unique_id", "ds", "Season-lo-95", "Season-lo-80", "Season-hi-80", "Season-hi-95"]
print(added.groupby("unique_id").tail(1)[columns].to_string(index=False, float_format="%.0f"))

# %% [markdown]
# How good they are, beside the corrected quantiles of a model that forecasts two quantiles itself.

# %%
quantiles = SeriesPredictors(levels=[80, 95], seed=7)
both = quantiles.add_intervals(added, {"Quantiles": ("q10", "q90")})
figures = ["model", "level", "coverage", "width", "interval_score"]
print(evaluate(both)[figures].to_string(index=False, float_format="%.2f"))

# %% [markdown]
# A picture of each.

# %%
axes = predictors.plot("harbour", last=120)
axes.figure.savefig("fan-levels.png", dpi=110)
axes = quantiles.plot("harbour", last=120)
axes.figure.savefig("fan-quantiles.png", dpi=110)

# %% [markdown]
# Tomorrow's sales answer today's intervals; the object is kept in a file until then.

# %%
predictors.save("shops.keyhole")
sales = pd.DataFrame({"unique_id": ["harbour"], "ds": [pd.Timestamp("2026-12-18")], "y": [101.0]})
print(SeriesPredictors.load("shops.keyhole").learn(sales), "answered")
