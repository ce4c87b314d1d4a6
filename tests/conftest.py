from hypothesis import settings

# The first example compiles a kernel, and a test must not depend on the clock or on luck.
settings.register_profile("keyhole", deadline=None, derandomize=True)
settings.load_profile("keyhole")
