//! The server of the tests: clients, namespaces, and objects.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Api, Client, Config, Error};
use serde::de::DeserializeOwned;
use serde_json::{json, Value};

const SECONDS: u64 = 60;

/// Returns the kubeconfig in the file that an environment variable names.
pub fn kubeconfig(variable: &str) -> Kubeconfig {
    let path = std::env::var(variable).expect(variable);
    Kubeconfig::read_from(path).expect("a kubeconfig")
}

pub async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let options = KubeConfigOptions::default();
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

/// Returns a client with a client certificate.
pub async fn client() -> Client {
    client_of(kubeconfig("KUBECONFIG")).await
}

/// Creates a namespace; returns a client and the name.
pub async fn namespace() -> (Client, String) {
    let client = client().await;
    let body: Namespace = object(json!({"metadata": {"generateName": "rust-"}}));
    let created =
        Api::all(client.clone()).create(&PostParams::default(), &body).await.expect("created");
    (client, created.metadata.name.expect("a name"))
}

/// Returns the typed object of a JSON value.
pub fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of the type")
}

pub fn config_map(name: &str, data: Value) -> ConfigMap {
    object(json!({"metadata": {"name": name}, "data": data}))
}

pub fn deployment(name: &str, replicas: i32) -> Deployment {
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            },
        },
    }))
}

/// Returns the Status of a failed request.
pub fn status_of<T: Debug>(result: Result<T, Error>) -> Box<Status> {
    match result {
        Err(Error::Api(status)) => status,
        other => panic!("not an API error: {other:?}"),
    }
}

/// Awaits a future; fails the test when it takes a minute.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(SECONDS), future).await.expect("in time")
}
