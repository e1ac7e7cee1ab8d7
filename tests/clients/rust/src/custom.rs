//! A custom resource definition that kube-derive generates, its objects, and their subresources.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cluster::{namespace, object, soon, status_of};

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(group = "rust.example.com", version = "v1", kind = "Gadget", namespaced)]
#[kube(status = "GadgetStatus")]
#[kube(scale(spec_replicas_path = ".spec.size", status_replicas_path = ".status.size"))]
#[kube(validation = "self.spec.color != 'red' || self.spec.size < 5")]
pub struct GadgetSpec {
    #[schemars(range(min = 0, max = 9))]
    pub size: i32,
    #[serde(default = "blue")]
    pub color: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct GadgetStatus {
    pub size: i32,
}

fn blue() -> String {
    "blue".into()
}

/// Serves gadgets, and returns their API in a new namespace.
pub async fn gadgets() -> (Client, Api<Gadget>) {
    let (client, name) = namespace().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("rust").force();
    let patch = Patch::Apply(Gadget::crd());
    definitions.patch(Gadget::crd_name(), &apply, &patch).await.expect("a definition");
    let established = conditions::is_crd_established();
    soon(await_condition(definitions, Gadget::crd_name(), established)).await.expect("established");
    (client.clone(), Api::namespaced(client, &name))
}

fn gadget(name: &str, size: i32) -> Gadget {
    Gadget::new(name, GadgetSpec { size, color: blue() })
}

#[tokio::test]
async fn create_default_validate_replace_delete() {
    let (_, gadgets) = gadgets().await;
    let post = PostParams::default();
    let created = gadgets.create(&post, &gadget("a", 1)).await.expect("created");
    let status = status_of(gadgets.create(&post, &gadget("b", 10)).await);
    assert!(status.message.contains("should be less than or equal to 9"), "{}", status.message);
    let mut red = gadget("b", 6);
    red.spec.color = "red".into();
    let status = status_of(gadgets.create(&post, &red).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let mut changed = created.clone();
    changed.spec.size = 2;
    let replaced = gadgets.replace("a", &post, &changed).await.expect("replaced");
    assert_eq!((replaced.metadata.generation, replaced.spec.size), (Some(2), 2));
    assert!(status_of(gadgets.replace("a", &post, &created).await).is_conflict());
    let listed = gadgets.list(&ListParams::default()).await.expect("a list");
    assert_eq!(listed.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);
    gadgets.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(gadgets.get_opt("a").await.expect("no error").is_none());
}

#[tokio::test]
async fn dynamic_objects_are_defaulted() {
    let (client, gadgets) = gadgets().await;
    let namespace = gadgets.namespace().expect("a namespace");
    let resource = Gadget::api_resource();
    let dynamic: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let body = object(json!({
        "apiVersion": "rust.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
        "spec": {"size": 1},
    }));
    let created = dynamic.create(&PostParams::default(), &body).await.expect("created");
    assert_eq!(created.data["spec"], json!({"size": 1, "color": "blue"}));
}

#[tokio::test]
async fn patches_and_server_side_apply() {
    let (_, gadgets) = gadgets().await;
    gadgets.create(&PostParams::default(), &gadget("a", 1)).await.expect("created");
    let none = PatchParams::default();
    let merge = Patch::Merge(json!({"spec": {"size": 2}}));
    assert_eq!(gadgets.patch("a", &none, &merge).await.expect("patched").spec.size, 2);
    let strategic = Patch::Strategic(json!({"spec": {"size": 3}}));
    assert_eq!(status_of(gadgets.patch("a", &none, &strategic).await).code, 415);
    let apply = Patch::Apply(gadget("a", 4));
    assert!(status_of(gadgets.patch("a", &PatchParams::apply("rust"), &apply).await).is_conflict());
    let force = PatchParams::apply("rust").force();
    assert_eq!(gadgets.patch("a", &force, &apply).await.expect("applied").spec.size, 4);
}

#[tokio::test]
async fn status_and_scale() {
    let (_, gadgets) = gadgets().await;
    gadgets.create(&PostParams::default(), &gadget("a", 1)).await.expect("created");
    let patch = Patch::Merge(json!({"spec": {"size": 9}, "status": {"size": 1}}));
    let patched =
        gadgets.patch_status("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!((patched.spec.size, patched.status), (1, Some(GadgetStatus { size: 1 })));
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let scale = gadgets.patch_scale("a", &PatchParams::default(), &patch).await.expect("scaled");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(4));
    assert_eq!(scale.status.map(|status| status.replicas), Some(1));
}
