"""The loaders of admission plugins that have state, a configuration, no hooks, or idle writes.

A loader imports the module of its plugin, with the first write that the plugin handles, and returns
its hooks.
"""

from __future__ import annotations

from functools import partial

from kapiserver.apiserver.admission.plugin import Hooks, PluginContext


def always_admit(_context: PluginContext) -> Hooks:
    """Allows everything, as every plugin without hooks does."""
    return Hooks()


def inactive(_context: PluginContext) -> Hooks:
    """Does nothing, as in kube-apiserver while the feature gate of the plugin is off."""
    return Hooks()


def default_toleration_seconds(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import default_toleration_seconds as plugin

    return Hooks(admit=partial(plugin.admit, plugin.seconds_by_taint(context.config.admission)))


def event_rate_limit(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.event_rate_limit import EventRateLimit

    plugin = EventRateLimit(context.configuration)
    return Hooks(validate=plugin.validate)


def image_policy_webhook(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.image_policy_webhook import ImagePolicyWebhook

    plugin = ImagePolicyWebhook(context)
    return Hooks(validate=plugin.validate, close=plugin.close)


def namespace_lifecycle(_context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import namespace_lifecycle as plugin

    return Hooks(admit=plugin.admit, is_idle=plugin.is_idle)


def pod_node_selector(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.pod_node_selector import PodNodeSelector

    plugin = PodNodeSelector(context.configuration)
    return Hooks(admit=plugin.admit, validate=plugin.validate)


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


def resource_quota(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins.resource_quota import ResourceQuota

    plugin = ResourceQuota(context.configuration)
    return Hooks(validate=plugin.validate, is_idle=plugin.is_idle)


def mutating_admission_policy(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import mutating_admission_policy as module

    plugin = module.MutatingAdmissionPolicy(context)
    return Hooks(admit=plugin.admit, is_idle=plugin.is_idle, close=plugin.close)


def validating_admission_policy(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.plugins import validating_admission_policy as module

    plugin = module.ValidatingAdmissionPolicy(context)
    return Hooks(validate=plugin.validate, is_idle=plugin.is_idle, close=plugin.close)


def mutating_admission_webhook(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.webhooks.mutating import MutatingWebhooks

    webhooks = MutatingWebhooks(context)
    return Hooks(admit=webhooks.admit, is_idle=webhooks.is_idle, close=webhooks.close)


def validating_admission_webhook(context: PluginContext) -> Hooks:
    from kapiserver.apiserver.admission.webhooks.validating import ValidatingWebhooks

    webhooks = ValidatingWebhooks(context)
    return Hooks(validate=webhooks.validate, is_idle=webhooks.is_idle, close=webhooks.close)
