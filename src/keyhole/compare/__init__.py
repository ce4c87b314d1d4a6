"""Learners side by side: every one that the feedback allows, on every stream, measured alike."""
