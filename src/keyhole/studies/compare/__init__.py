"""Learners side by side: every one that the feedback allows, on every scenario, measured alike."""
