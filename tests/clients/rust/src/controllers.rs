//! A controller with a finalizer, an owned object and events, as operators in Rust are written.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event as EventObject;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{finalizer, Event as Finalized};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{watcher, Controller};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::cluster::{object, soon};
use crate::custom::{gadgets, Gadget, GadgetSpec};

const MANAGER: &str = "gadget-controller";

type ReconcileError = kube::runtime::finalizer::Error<kube::Error>;

struct Context {
    client: Client,
    recorder: Recorder,
}

async fn reconcile(gadget: Arc<Gadget>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let namespace = gadget.namespace().expect("a namespace");
    let gadgets: Api<Gadget> = Api::namespaced(context.client.clone(), &namespace);
    finalizer(&gadgets, "rust.example.com/cleanup", gadget, |event| async {
        match event {
            Finalized::Apply(gadget) => apply(&gadget, &context).await,
            Finalized::Cleanup(_) => Ok(Action::await_change()),
        }
    })
    .await
}

async fn apply(gadget: &Gadget, context: &Context) -> Result<Action, kube::Error> {
    let namespace = gadget.namespace().expect("a namespace");
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": gadget.name_any(), "ownerReferences": [gadget.controller_owner_ref(&())]},
        "data": {"size": gadget.spec.size.to_string()},
    });
    let params = PatchParams::apply(MANAGER).force();
    maps.patch(&gadget.name_any(), &params, &Patch::Apply(body)).await?;
    let gadgets: Api<Gadget> = Api::namespaced(context.client.clone(), &namespace);
    let status = json!({
        "apiVersion": "rust.example.com/v1",
        "kind": "Gadget",
        "status": {"size": gadget.spec.size},
    });
    gadgets.patch_status(&gadget.name_any(), &params, &Patch::Apply(status)).await?;
    let event = Event {
        type_: EventType::Normal,
        reason: "Applied".into(),
        note: None,
        action: "Apply".into(),
        secondary: None,
    };
    context.recorder.publish(&event, &gadget.object_ref(&())).await?;
    Ok(Action::await_change())
}

fn size_of(map: Option<&ConfigMap>) -> Option<&str> {
    map?.data.as_ref()?.get("size").map(String::as_str)
}

#[tokio::test]
async fn a_controller_reconciles_its_objects() {
    let (client, gadgets) = gadgets().await;
    let namespace = gadgets.namespace().expect("a namespace").to_owned();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let reporter = Reporter { controller: MANAGER.into(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    let context = Arc::new(Context { client: client.clone(), recorder });
    let controller = Controller::new(gadgets.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), context)
        .for_each(|_| async {});
    let running = tokio::spawn(controller);

    let body: Gadget = Gadget::new("a", object::<GadgetSpec>(json!({"size": 1})));
    let created = gadgets.create(&PostParams::default(), &body).await.expect("created");
    let has_size = |size: &'static str| move |map: Option<&ConfigMap>| size_of(map) == Some(size);
    soon(await_condition(maps.clone(), "a", has_size("1"))).await.expect("a map");
    let patch = Patch::Merge(json!({"spec": {"size": 2}}));
    gadgets.patch("a", &PatchParams::default(), &patch).await.expect("patched");
    soon(await_condition(maps.clone(), "a", has_size("2"))).await.expect("a changed map");
    // The controller creates a deleted map again.
    let map = maps.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(map.is_right());
    soon(await_condition(maps.clone(), "a", has_size("2"))).await.expect("a new map");
    let reported = |gadget: Option<&Gadget>| {
        gadget.and_then(|gadget| gadget.status.as_ref()).is_some_and(|status| status.size == 2)
    };
    soon(await_condition(gadgets.clone(), "a", reported)).await.expect("a status");
    let events: Api<EventObject> = Api::namespaced(client, &namespace);
    let of_gadget = ListParams::default().fields("regarding.name=a");
    let listed = soon(async {
        loop {
            let listed = events.list(&of_gadget).await.expect("events");
            if !listed.items.is_empty() {
                return listed;
            }
        }
    })
    .await;
    assert_eq!(listed.items[0].reason.as_deref(), Some("Applied"));

    gadgets.delete("a", &DeleteParams::default()).await.expect("deleted");
    let uid = created.uid().expect("a uid");
    soon(await_condition(gadgets, "a", conditions::is_deleted(&uid))).await.expect("finalized");
    soon(await_condition(maps, "a", |map: Option<&ConfigMap>| map.is_none()))
        .await
        .expect("collected");
    running.abort();
}
