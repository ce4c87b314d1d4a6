"""Skins over the predictor for what people use already; each needs the extra of its name.

``frames`` reads tables of forecasts by ``_forecasts``, plays the rows of a model in ``_series`` with
the widths that ``_pool`` finds, and looks back by ``_evaluate``. ``tables`` and ``spark`` play keyed
rounds as Arrow tables (``_arrow``). What ``sklearn`` and ``river`` share is in ``_cases``.
"""
