//! Credentials: a client certificate, a token, none, a wrong one; the CA of the server; discovery.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::discovery::{verbs, Discovery, Scope};
use kube::{Api, Client};

use crate::cluster::{client, client_of, kubeconfig, status_of};

async fn user_of(client: Client) -> UserInfo {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    review.expect("a review").status.and_then(|status| status.user_info).expect("a user")
}

fn with_token(token: Option<&str>) -> Kubeconfig {
    let mut config = kubeconfig("TOKEN_KUBECONFIG");
    let user = config.auth_infos[0].auth_info.as_mut().expect("a user");
    user.token = token.map(|text| text.to_owned().into());
    config
}

#[tokio::test]
async fn a_client_certificate_authenticates() {
    let user = user_of(client().await).await;
    assert_eq!(user.username.as_deref(), Some("kubernetes-admin"));
    assert!(user.groups.unwrap_or_default().contains(&"system:masters".to_owned()));
}

#[tokio::test]
async fn a_token_authenticates() {
    let user = user_of(client_of(kubeconfig("TOKEN_KUBECONFIG")).await).await;
    assert_eq!(user.username.as_deref(), Some("token-user"));
}

#[tokio::test]
async fn a_wrong_token_is_refused() {
    let namespaces: Api<Namespace> = Api::all(client_of(with_token(Some("wrong"))).await);
    let status = status_of(namespaces.list(&ListParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
}

#[tokio::test]
async fn a_user_without_rights_is_refused() {
    let namespaces: Api<Namespace> = Api::all(client_of(with_token(None)).await);
    let status = status_of(namespaces.list(&ListParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert!(status.is_forbidden());
}

#[tokio::test]
async fn a_server_of_another_ca_is_refused() {
    let mut config = kubeconfig("KUBECONFIG");
    let cluster = config.clusters[0].cluster.as_mut().expect("a cluster");
    cluster.certificate_authority_data = None;
    let namespaces: Api<Namespace> = Api::all(client_of(config).await);
    let error = namespaces.list(&ListParams::default()).await.expect_err("a TLS error");
    assert!(format!("{error:?}").contains("ertificate"), "{error:?}");
}

#[tokio::test]
async fn version_and_discovery() {
    let client = client().await;
    assert_eq!(client.apiserver_version().await.expect("a version").major, "1");
    for discovery in [
        Discovery::new(client.clone()).run().await.expect("groups"),
        Discovery::new(client.clone()).run_aggregated().await.expect("aggregated groups"),
    ] {
        let group = discovery.get("apps").expect("apps");
        let (resource, capabilities) = group.recommended_kind("Deployment").expect("Deployment");
        assert_eq!((resource.version.as_str(), resource.plural.as_str()), ("v1", "deployments"));
        assert_eq!(capabilities.scope, Scope::Namespaced);
        assert!(capabilities.supports_operation(verbs::DELETE_COLLECTION));
    }
}
