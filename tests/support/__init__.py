"""Helpers that several test files share: builders of objects and hypothesis strategies."""

from __future__ import annotations
