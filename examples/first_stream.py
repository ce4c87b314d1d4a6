# ---
# jupyter:
#   jupytext:
#     formats: py:percent,ipynb
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Which digits do I show?
# A classifier is unsure about handwriting. Show its best guesses, as few as possible; miss the right
# one about once in ten. Needs `pip install 'keyhole-conformal[plot]'`; open it as a notebook
# with `jupytext --to ipynb first_stream.py`.

# %%
import numpy as np

import keyhole
from keyhole.scenarios.digits import digit_guesses

chances, digits = digit_guesses(10_000, seed=7)

# %% [markdown]
# Predict, get partial feedback, learn. A label that was not in the set is never revealed.

# %%
predictor = keyhole.Predictor(alpha=0.1, seed=7, history=10_000)
for row, digit in zip(chances, digits, strict=True):
    shown = predictor.predict(row)
    if digit in shown:
        predictor.learn(shown, label=digit)
    else:
        predictor.learn(shown, keyhole.MISS)
print(predictor)

# %% [markdown]
# The pictures come from one writer after another; the miss rate stays on target, the sizes change.

# %%
top, bottom = predictor.plot(window=1_000)
top.figure.savefig("first-stream.png", dpi=110)

# %% [markdown]
# Compare with a threshold that was right for the first thousand pictures.

# %%
true = chances[np.arange(digits.size), digits]
fixed = np.quantile(true[:1_000], 0.1)
for name, missed in {"Keyhole": predictor.history()["miss"], "fixed": true < fixed}.items():
    rates = [f"{part.mean():.0%}" for part in np.array_split(missed, 10)]
    print(f"{name:<8}", *rates)
