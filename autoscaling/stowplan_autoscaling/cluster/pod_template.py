"""From a pod template to a new pod (pkg/controller/controller_utils.go, GetPodFromTemplate)."""

from __future__ import annotations

from stowplan_scheduler.objects import ObjectMeta, OwnerReference, PodStatus, PodTemplateSpec

from .pods import PENDING, ClusterPod


def pod_from_template(
    template: PodTemplateSpec,
    parent: ObjectMeta,
    owner: OwnerReference,
    *,
    name: str = "",
    labels: dict[str, str] | None = None,
) -> ClusterPod:
    """A pod of the parent, not created yet; without a name the API server makes one. `labels` come on top."""
    meta = template.metadata
    return ClusterPod(
        metadata=ObjectMeta(
            name=name,
            generate_name="" if name else f"{parent.name}-",
            namespace=parent.namespace,
            labels={**meta.labels, **labels} if labels else meta.labels,
            annotations=meta.annotations,
            owner_references=(owner,),
        ),
        spec=template.spec,
        status=PodStatus(phase=PENDING),
        owner_uid=owner.uid,
    )
