"""The loader of each admission plugin: imports its module and returns its hooks.

The modules are imported with the first write that they handle. Each loader is a function, and not a
row of PLUGINS with the name of a module, so that the type checker and a search find the module and
its hooks (see `media_types.py` on late loading).
"""

from __future__ import annotations

from functools import partial

from kapiserver.apiserver.admission.plugin import Hooks, PluginContext


def always_admit(_context: PluginContext) -> Hooks:
    """Allows everything, as every plugin without hooks does."""
    return Hooks()


def always_deny(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import always_deny as plugin

    return Hooks(admit=plugin.admit)


def always_pull_images(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import always_pull_images as plugin

    return Hooks(admit=plugin.admit, validate=plugin.validate)


def certificate_approval(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import certificate_approval as plugin

    return Hooks(validate=plugin.validate)


def certificate_signing(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import certificate_signing as plugin

    return Hooks(validate=plugin.validate)


def certificate_subject_restriction(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import certificate_subject_restriction as plugin

    return Hooks(validate=plugin.validate)


def cluster_trust_bundle_attest(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import cluster_trust_bundle_attest as plugin

    return Hooks(validate=plugin.validate)


def default_class(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import default_class as plugin

    return Hooks(admit=plugin.admit)


def default_toleration_seconds(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import default_toleration_seconds as plugin

    return Hooks(admit=partial(plugin.admit, plugin.seconds_by_taint(context.config.admission)))


def deny_service_external_ips(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import deny_service_external_ips as plugin

    return Hooks(validate=plugin.validate)


def event_rate_limit(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.event_rate_limit import EventRateLimit

    plugin = EventRateLimit(context.configuration)
    return Hooks(validate=plugin.validate)


def extended_resource_toleration(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import extended_resource_toleration as plugin

    return Hooks(admit=plugin.admit)


def image_policy_webhook(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.image_policy_webhook import ImagePolicyWebhook

    plugin = ImagePolicyWebhook(context)
    return Hooks(validate=plugin.validate, close=plugin.close)


def inactive(_context: PluginContext) -> Hooks:
    """Does nothing, as in kube-apiserver while the feature gate of the plugin is off."""
    return Hooks()


def limit_pod_hard_anti_affinity_topology(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import (
        limit_pod_hard_anti_affinity_topology as plugin,
    )

    return Hooks(validate=plugin.validate)


def limit_ranger(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import limit_ranger as plugin

    return Hooks(admit=plugin.admit, validate=plugin.validate)


def namespace_auto_provision(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import namespace_auto_provision as plugin

    return Hooks(admit=plugin.admit)


def namespace_exists(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import namespace_exists as plugin

    return Hooks(validate=plugin.validate)


def namespace_lifecycle(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import namespace_lifecycle as plugin

    return Hooks(admit=plugin.admit)


def node_declared_feature_validator(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import node_declared_feature_validator as plugin

    return Hooks(validate=plugin.validate)


def node_restriction(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import node_restriction as plugin

    return Hooks(admit=plugin.admit)


def owner_references_permission_enforcement(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import (
        owner_references_permission_enforcement as plugin,
    )

    return Hooks(validate=plugin.validate)


def persistent_volume_claim_resize(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import persistent_volume_claim_resize as plugin

    return Hooks(validate=plugin.validate)


def pod_node_selector(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.pod_node_selector import PodNodeSelector

    plugin = PodNodeSelector(context.configuration)
    return Hooks(admit=plugin.admit, validate=plugin.validate)


def pod_resize_validator(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import pod_resize_validator as plugin

    return Hooks(validate=plugin.validate)


def pod_security(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import pod_security as plugin
    from kapiserver.apiserver.admission.plugins.pod_security_configuration import read_settings

    return Hooks(validate=partial(plugin.validate, read_settings(context.configuration)))


def pod_toleration_restriction(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.pod_toleration_restriction import (
        PodTolerationRestriction,
    )

    plugin = PodTolerationRestriction(context.configuration)
    return Hooks(admit=plugin.admit, validate=plugin.validate)


def pod_topology_labels(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import pod_topology_labels as plugin

    return Hooks(admit=plugin.admit)


def priority(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import priority as plugin

    return Hooks(admit=plugin.admit, validate=plugin.validate)


def resource_quota(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.resource_quota import ResourceQuota

    plugin = ResourceQuota(context.configuration)
    return Hooks(validate=plugin.validate, is_idle=plugin.is_idle)


def runtime_class(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import runtime_class as plugin

    return Hooks(admit=plugin.admit, validate=plugin.validate)


def service_account(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import service_account as plugin

    return Hooks(admit=plugin.admit, validate=plugin.validate)


def storage_object_in_use_protection(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import storage_object_in_use_protection as plugin

    return Hooks(admit=plugin.admit)


def mutating_admission_policy(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import mutating_admission_policy as module

    plugin = module.MutatingAdmissionPolicy(context)
    return Hooks(admit=plugin.admit, is_idle=plugin.is_idle, close=plugin.close)


def validating_admission_policy(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import validating_admission_policy as module

    plugin = module.ValidatingAdmissionPolicy(context)
    return Hooks(validate=plugin.validate, is_idle=plugin.is_idle, close=plugin.close)


def taint_nodes_by_condition(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import taint_nodes_by_condition as plugin

    return Hooks(admit=plugin.admit)


def mutating_admission_webhook(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.webhooks.mutating import MutatingWebhooks

    webhooks = MutatingWebhooks(context)
    return Hooks(admit=webhooks.admit, is_idle=webhooks.is_idle, close=webhooks.close)


def validating_admission_webhook(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.webhooks.validating import ValidatingWebhooks

    webhooks = ValidatingWebhooks(context)
    return Hooks(validate=webhooks.validate, is_idle=webhooks.is_idle, close=webhooks.close)
