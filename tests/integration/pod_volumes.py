"""The volumes of a pod as folders of this machine, written as a kubelet writes them; for `integration.kubelet`.

Files of a ConfigMap or a projected volume are links into a folder with a date, which another one replaces at once and
whole when their content changes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

from integration.kube_api import KubeApi, Manifest, sure

DATA: Final = "..data"

_NUMBERS: Final = count(1)


class PodVolumes:
    """Those of one pod, under one folder; each is a folder by its name."""

    def __init__(self, pod: Manifest, folder: Path) -> None:
        self._pod = pod
        self._folder = folder
        self._written: dict[str, Mapping[str, str]] = {}
        self._token = ""

    def folder(self, name: str) -> Path:
        """Of one volume."""
        return self._folder / name

    def write(self, api: KubeApi) -> None:
        """Make all volumes, and write anew what has changed. Raises RefusedError, OSError."""
        for volume in self._pod["spec"].get("volumes", ()):
            folder = self.folder(volume["name"])
            folder.mkdir(parents=True, exist_ok=True)
            if "emptyDir" in volume:
                # Anybody may write there, as far as a pod without fsGroup goes.
                folder.chmod(0o777)
                continue
            files = self._files(api, volume)
            if files != self._written.get(volume["name"]):
                _replace(folder, files)
                self._written[volume["name"]] = files

    def _files(self, api: KubeApi, source: Manifest) -> Mapping[str, str]:
        """What a source of a volume holds, by path."""
        if "configMap" in source:
            wanted: Manifest = source["configMap"]
            meta = {"name": wanted["name"], "namespace": self._pod["metadata"]["namespace"]}
            found = sure(api.read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})).get("data", {})
            named = {item["key"]: item["path"] for item in wanted.get("items", ())} or {key: key for key in found}
            return {path: found[key] for key, path in named.items()}
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self._account_token(api)}
        if "downwardAPI" in source:
            items = source["downwardAPI"]["items"]
            return {item["path"]: field_of(self._pod, item["fieldRef"]["fieldPath"]) for item in items}
        if "projected" in source:
            return {
                path: text for each in source["projected"]["sources"] for path, text in self._files(api, each).items()
            }
        raise ValueError(f"no volume of a test is like this: {source}")

    def _account_token(self, api: KubeApi) -> str:
        """A token that is bound to the pod, as its kubelet asks for it; good for an hour, which no test takes."""
        if not self._token:
            meta = self._pod["metadata"]
            account = self._pod["spec"]["serviceAccountName"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
            }
            path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
            self._token = sure(api.request("POST", path, request))["status"]["token"]
        return self._token


def field_of(pod: Manifest, path: str) -> str:
    """The text of a field that the downward API names, as in metadata.namespace."""
    found = pod
    for part in path.split("."):
        found = found[part]
    return str(found)


def _replace(folder: Path, files: Mapping[str, str]) -> None:
    """All files at once, by another target of one link."""
    made = folder / f"..{next(_NUMBERS)}"
    for path, text in files.items():
        file = made / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)
    link, before = folder / DATA, None
    with contextlib.suppress(OSError):
        before = folder / link.readlink()
    scratch = folder / "..data_tmp"
    scratch.symlink_to(made.name)
    scratch.replace(link)
    for path in files:
        if not (folder / path).is_symlink():
            (folder / path).symlink_to(f"{DATA}/{path}")
    if before is not None:
        shutil.rmtree(before)
