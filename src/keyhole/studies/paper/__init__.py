"""The paper's experiments: settings as data, runs that can be interrupted, and the report."""
