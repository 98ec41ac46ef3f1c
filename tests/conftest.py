from __future__ import annotations

import os

import hypothesis

hypothesis.settings.register_profile(
    "skyband", deadline=None, derandomize=bool(os.environ.get("CI"))
)
hypothesis.settings.load_profile("skyband")
