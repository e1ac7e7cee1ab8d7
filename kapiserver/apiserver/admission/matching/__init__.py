"""The matching that webhooks and policies share: rules, selectors, equivalent resources, objects in
the version that matched, match conditions."""
