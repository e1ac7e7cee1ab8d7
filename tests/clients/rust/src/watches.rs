//! Watches, their bookmarks, watchers and reflectors.

use std::pin::pin;

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::reflector::{store, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{reflector, watcher as watch, WatchStreamExt};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::cluster::{config_map, namespace, soon};

async fn config_maps() -> (Api<ConfigMap>, String) {
    let (client, name) = namespace().await;
    (Api::namespaced(client, &name), name)
}

#[tokio::test]
async fn a_watch_from_a_version_delivers_later_changes() {
    let (maps, _) = config_maps().await;
    let post = PostParams::default();
    let mut map = maps.create(&post, &config_map("a", json!({}))).await.expect("created");
    let version = map.resource_version().expect("a version");
    map.labels_mut().insert("x".into(), "1".into());
    maps.replace("a", &post, &map).await.expect("replaced");
    maps.delete("a", &DeleteParams::default()).await.expect("deleted");
    let params = WatchParams::default().fields("metadata.name=a");
    let events = maps.watch(&params, &version).await.expect("a watch");
    let types: Vec<_> = soon(events.take(2).map_ok(type_of).try_collect()).await.expect("events");
    assert_eq!(types, ["MODIFIED", "DELETED"]);
}

fn type_of(event: WatchEvent<ConfigMap>) -> &'static str {
    match event {
        WatchEvent::Added(_) => "ADDED",
        WatchEvent::Modified(_) => "MODIFIED",
        WatchEvent::Deleted(_) => "DELETED",
        WatchEvent::Bookmark(_) => "BOOKMARK",
        WatchEvent::Error(_) => "ERROR",
    }
}

#[tokio::test]
async fn bookmarks() {
    let (maps, _) = config_maps().await;
    maps.create(&PostParams::default(), &config_map("a", json!({}))).await.expect("created");
    let params = WatchParams::streaming_lists().fields("metadata.name=a").timeout(1);
    let events = maps.watch(&params, "").await.expect("a watch");
    let events: Vec<_> = soon(events.try_collect()).await.expect("events");
    let annotated = match &events[1] {
        WatchEvent::Bookmark(bookmark) => {
            bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end")
        }
        other => panic!("not a bookmark: {other:?}"),
    };
    assert!(annotated);
    // The last one precedes the time-out.
    assert_eq!(
        events.into_iter().map(type_of).collect::<Vec<_>>(),
        ["ADDED", "BOOKMARK", "BOOKMARK"]
    );
}

/// Follows changes with a reflector whose watches end after a second each.
async fn reflect(config: watcher::Config) {
    let (maps, namespace) = config_maps().await;
    let post = PostParams::default();
    maps.create(&post, &config_map("early", json!({}))).await.expect("created");
    let (reader, writer) = store();
    let changes = reflector(writer, watch(maps.clone(), config.timeout(1))).default_backoff();
    let mut changes = pin!(changes);
    take_until(&mut changes, |event| matches!(event, Event::InitDone)).await;
    assert!(reader.get(&ObjectRef::new("early").within(&namespace)).is_some());
    for round in 0..3 {
        let name = format!("late-{round}");
        // Nobody reads the stream meanwhile: the watch ends, and the reflector opens another one.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        maps.create(&post, &config_map(&name, json!({}))).await.expect("created");
        take_until(&mut changes, |event| is_about(event, &name)).await;
        assert!(reader.get(&ObjectRef::new(&name).within(&namespace)).is_some());
    }
    maps.delete("early", &DeleteParams::default()).await.expect("deleted");
    take_until(&mut changes, |event| matches!(event, Event::Delete(_))).await;
    let listed = maps.list(&ListParams::default()).await.expect("a list");
    assert_eq!(reader.len(), listed.items.len());
}

async fn take_until<S>(changes: &mut S, mut is_last: impl FnMut(&Event<ConfigMap>) -> bool)
where
    S: Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin,
{
    soon(async {
        while let Some(event) = changes.next().await {
            if is_last(&event.expect("an event")) {
                return;
            }
        }
    })
    .await
}

fn is_about(event: &Event<ConfigMap>, name: &str) -> bool {
    matches!(event, Event::Apply(map) if map.name_any() == name)
}

#[tokio::test]
async fn a_reflector_lists_and_watches() {
    reflect(watcher::Config::default().page_size(1)).await;
}

#[tokio::test]
async fn a_reflector_streams_its_list() {
    reflect(watcher::Config::default().streaming_lists()).await;
}
