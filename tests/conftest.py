from __future__ import annotations

import os

import hypothesis

# starting Spark takes seconds; what tests it asks for it
os.environ.setdefault("SKYBAND_ENGINE", "local")

hypothesis.settings.register_profile(
    "skyband", deadline=None, derandomize=bool(os.environ.get("CI"))
)
hypothesis.settings.load_profile("skyband")
