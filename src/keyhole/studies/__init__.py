"""What runs many simulations and draws what came of them."""
