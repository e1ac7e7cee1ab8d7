//! Reads and writes of objects: create, get, replace, patch, list, delete, subresources, errors.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::cluster::{config_map, deployment, namespace, object, soon, status_of};

async fn config_maps() -> Api<ConfigMap> {
    let (client, name) = namespace().await;
    Api::namespaced(client, &name)
}

async fn deployments() -> Api<Deployment> {
    let (client, name) = namespace().await;
    Api::namespaced(client, &name)
}

#[tokio::test]
async fn create_get_replace_delete() {
    let maps = config_maps().await;
    let post = PostParams::default();
    let mut created =
        maps.create(&post, &config_map("a", json!({"x": "1"}))).await.expect("created");
    assert_eq!(maps.get("a").await.expect("read"), created);
    assert_eq!(maps.get_metadata("a").await.expect("metadata").metadata, created.metadata);
    created.data.get_or_insert_default().insert("x".into(), "2".into());
    let replaced = maps.replace("a", &post, &created).await.expect("replaced");
    assert_ne!(replaced.resource_version(), created.resource_version());
    let status = maps.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(status.right().expect("a Status").is_success());
    assert!(maps.get_opt("a").await.expect("no error").is_none());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry_run, &config_map("dry", json!({}))).await.expect("a dry run");
    assert!(maps.get_opt("dry").await.expect("no error").is_none());
}

#[tokio::test]
async fn json_and_merge_patches() {
    let maps = config_maps().await;
    maps.create(&PostParams::default(), &config_map("a", json!({"x": "1"})))
        .await
        .expect("created");
    let steps = json!([
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
    ]);
    let patch = Patch::Json::<()>(serde_json::from_value(steps).expect("a JSON patch"));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(patched.data.expect("data")["x"], "2");
    let status = status_of(maps.patch("a", &PatchParams::default(), &patch).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let patch = Patch::Merge(json!({"data": {"x": null, "y": "1"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(patched.data.expect("data").into_keys().collect::<Vec<_>>(), ["y"]);
    let metadata =
        maps.patch_metadata("a", &PatchParams::default(), &patch).await.expect("metadata");
    assert_eq!(metadata.name_any(), "a");
}

#[tokio::test]
async fn strategic_merge_patch() {
    let deployments = deployments().await;
    deployments.create(&PostParams::default(), &deployment("a", 1)).await.expect("created");
    let containers = json!([{"name": "side", "image": "side:1"}]);
    let patch =
        Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    let patched = deployments.patch("a", &PatchParams::default(), &patch).await.expect("patched");
    let pod = patched.spec.template.spec.expect("a pod");
    let names: Vec<_> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["side", "main"]);
}

#[tokio::test]
async fn server_side_apply() {
    let deployments = deployments().await;
    let apply = |replicas, params: PatchParams| {
        let deployments = deployments.clone();
        async move { deployments.patch("a", &params, &Patch::Apply(deployment("a", replicas))).await }
    };
    let created = apply(1, PatchParams::apply("first")).await.expect("applied");
    assert_eq!(created.managed_fields()[0].manager.as_deref(), Some("first"));
    let status = status_of(apply(2, PatchParams::apply("second")).await);
    assert!(status.is_conflict());
    let causes = &status.details.expect("details").causes;
    assert_eq!(causes[0].reason, "FieldManagerConflict");
    assert_eq!(causes[0].field, ".spec.replicas");
    let forced = apply(2, PatchParams::apply("second").force()).await.expect("applied");
    assert_eq!(forced.spec.replicas, Some(2));
    let strict = PatchParams::apply("first").validation_strict();
    let unknown = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"size": 1}});
    let status = status_of(deployments.patch("a", &strict, &Patch::Apply(unknown)).await);
    assert_eq!(status.code, 400, "{status:?}");
}

#[tokio::test]
async fn pages_of_a_list() {
    let maps = config_maps().await;
    for index in 0..7 {
        let mut map = config_map(&format!("page-{index}"), json!({}));
        map.labels_mut().insert("pages".into(), "yes".into());
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    let mut params = ListParams::default().labels("pages=yes").limit(3);
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let page = maps.list(&params).await.expect("a page");
        sizes.push(page.items.len());
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!(names, (0..7).map(|index| format!("page-{index}")).collect::<Vec<_>>());
    let all = ListParams::default().labels("pages=yes");
    let metadata = maps.list_metadata(&all).await.expect("metadata");
    assert_eq!(metadata.items.len(), 7);
    maps.delete_collection(&DeleteParams::default(), &all).await.expect("deleted");
    assert!(maps.list(&all).await.expect("a list").items.is_empty());
}

#[tokio::test]
async fn scale_and_status() {
    let deployments = deployments().await;
    deployments.create(&PostParams::default(), &deployment("a", 1)).await.expect("created");
    let mut scale = deployments.get_scale("a").await.expect("a scale");
    scale.spec.get_or_insert_default().replicas = Some(3);
    deployments.replace_scale("a", &PostParams::default(), &scale).await.expect("scaled");
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let scale =
        deployments.patch_scale("a", &PatchParams::default(), &patch).await.expect("scaled");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(4));
    let patch = Patch::Merge(json!({"spec": {"replicas": 9}, "status": {"observedGeneration": 7}}));
    let patched =
        deployments.patch_status("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(patched.spec.replicas, Some(4));
    assert_eq!(patched.status.and_then(|status| status.observed_generation), Some(7));
}

#[tokio::test]
async fn evict_a_pod() {
    let (client, name) = namespace().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &name);
    let spec = json!({
        "serviceAccountName": "none",
        "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": "nginx:1"}],
    });
    let pod: Pod = object(json!({"metadata": {"name": "a"}, "spec": spec}));
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client, &name);
    let account = object(json!({"metadata": {"name": "none"}}));
    accounts.create(&PostParams::default(), &account).await.expect("an account");
    pods.create(&PostParams::default(), &pod).await.expect("created");
    assert!(pods.evict("a", &EvictParams::default()).await.expect("evicted").is_success());
    assert!(pods.get_opt("a").await.expect("no error").is_none());
}

#[tokio::test]
async fn delete_with_propagation() {
    let maps = config_maps().await;
    let post = PostParams::default();
    let owner = maps.create(&post, &config_map("owner", json!({}))).await.expect("created");
    let mut dependent = config_map("dependent", json!({}));
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(),
        "blockOwnerDeletion": true,
    });
    dependent.metadata.owner_references = Some(vec![object(reference)]);
    let dependent = maps.create(&post, &dependent).await.expect("created");
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        preconditions: Some(Preconditions { uid: owner.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    let deleted = maps.delete("owner", &params).await.expect("deleted").left().expect("the object");
    assert_eq!(deleted.finalizers(), ["foregroundDeletion"]);
    for object in [dependent, owner] {
        let uid = object.uid().expect("a uid");
        let deleted = conditions::is_deleted(&uid);
        soon(await_condition(maps.clone(), &object.name_any(), deleted)).await.expect("deleted");
    }
}

#[tokio::test]
async fn errors_carry_their_status() {
    let maps = config_maps().await;
    let post = PostParams::default();
    let stale = maps.create(&post, &config_map("a", json!({}))).await.expect("created");
    let status = status_of(maps.create(&post, &config_map("a", json!({}))).await);
    assert!(status.is_already_exists());
    assert_eq!(status.details.map(|details| details.name).as_deref(), Some("a"));
    let status = status_of(maps.create(&post, &config_map("No!", json!({}))).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert!(status_of(maps.get("none").await).is_not_found());
    let mut current = stale.clone();
    current.data.get_or_insert_default().insert("x".into(), "1".into());
    maps.replace("a", &post, &current).await.expect("replaced");
    assert!(status_of(maps.replace("a", &post, &stale).await).is_conflict());
    let status = status_of(maps.list(&ListParams::default().labels("a in b")).await);
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    let params = DeleteParams::default()
        .preconditions(Preconditions { uid: Some("other".into()), resource_version: None });
    assert!(status_of(maps.delete("a", &params).await).is_conflict());
}
