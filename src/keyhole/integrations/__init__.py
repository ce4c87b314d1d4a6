"""Skins over the predictor for what people use already; each needs the extra of its name."""
