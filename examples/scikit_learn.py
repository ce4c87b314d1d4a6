# ---
# jupyter:
#   jupytext:
#     formats: py:percent,ipynb
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Prediction sets for a scikit-learn classifier
# Needs `pip install 'keyhole-conformal[sklearn,plot]'`.

# %%
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from keyhole.integrations.sklearn import SetClassifier

X, y = load_digits(return_X_y=True)
model = SetClassifier(LogisticRegression(C=0.01, max_iter=500), alpha=0.05, seed=7, history=2_000)
model.fit(X[:150], y[:150])

# %% [markdown]
# Ten pictures at a time: show the sets, then learn from the labels.

# %%
for start in range(150, 1790, 10):
    sets = model.predict_set(X[start : start + 10])
    model.learn(sets, y[start : start + 10])

print(f"missed {model.predictor_.miss_rate:.1%}, showed {model.predictor_.mean_size:.2f} labels")
print(f"the estimator's own accuracy: {model.score(X[150:], y[150:]):.1%}")

# %% [markdown]
# The misses and the sizes of the sets, over windows of 400 pictures.

# %%
top, bottom = model.predictor_.plot(window=400)
top.figure.savefig("scikit-learn.png", dpi=110)
