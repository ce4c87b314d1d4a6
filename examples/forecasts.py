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
# One row for each series and day, in the format of statsforecast. Needs
# `pip install 'keyhole-conformal[frames]' pandas`.

# %%
import numpy as np
import pandas as pd

from keyhole.integrations.frames import SeriesPredictors

rng = np.random.default_rng(3)
days = pd.date_range("2026-01-01", periods=365)
series = []
for shop, spread in {"harbour": 5.0, "station": 20.0}.items():
    season = 100 + 30 * np.sin(2 * np.pi * days.day_of_year / 365)
    sold = season + rng.normal(scale=spread, size=days.size)
    series.append(pd.DataFrame({"unique_id": shop, "ds": days, "SeasonalNaive": season, "y": sold}))
table = pd.concat(series, ignore_index=True)
table.loc[table["ds"] >= "2026-12-25", "y"] = None

# %% [markdown]
# The same table, with two more columns; rows without an outcome stay open.

# %%
predictors = SeriesPredictors(alpha=0.1, seed=7)
added = predictors.add_intervals(table, "SeasonalNaive")
print(added.groupby("unique_id").tail(2).to_string(index=False, float_format="%.1f"))

# %% [markdown]
# Each shop has its own predictor. Tomorrow's sales answer today's intervals.

# %%
for shop in predictors:
    print(shop, f"missed {predictors[shop].miss_rate:.1%},", predictors[shop].open_rounds, "open")
sales = pd.DataFrame({"unique_id": ["harbour"], "ds": [pd.Timestamp("2026-12-25")], "y": [101.0]})
print(predictors.learn(sales), "answered")
