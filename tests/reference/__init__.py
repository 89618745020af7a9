"""A second, slow and obvious scheduler: one function per rule, plain loops over nodes and pods.

The shipped scheduler computes with arrays, counters and memos; property tests hold it equal to this one. So nothing
here may import the shipped rules, caches or configuration: only the API objects, their defaults and the arithmetic of
requests are shared.

Not covered: volumes and devices (pods without them are decided in full), extenders, pod groups, binding.
"""

from __future__ import annotations
