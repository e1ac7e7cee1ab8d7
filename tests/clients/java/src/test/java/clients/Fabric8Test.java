package clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ConfigMapList;
import io.fabric8.kubernetes.api.model.DeletionPropagation;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.OwnerReferenceBuilder;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.api.model.authentication.SelfSubjectReview;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.NonNamespaceOperation;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.dsl.RollableScalableResource;
import io.fabric8.kubernetes.client.dsl.base.CustomResourceDefinitionContext;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderCallbacks;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElectionConfigBuilder;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The client of fabric8 against the server of the environment variable KUBECONFIG. */
class Fabric8Test {
  private KubernetesClient client;
  private String namespace;

  private static Config config(String variable) {
    return Config.fromKubeconfig(new File(System.getenv(variable)));
  }

  private static KubernetesClient clientOf(Config config) {
    return new KubernetesClientBuilder().withConfig(config).build();
  }

  @BeforeEach
  void connect() {
    client = clientOf(config("KUBECONFIG"));
    var body =
        new NamespaceBuilder().withNewMetadata().withGenerateName("fabric8-").endMetadata().build();
    namespace = client.namespaces().resource(body).create().getMetadata().getName();
  }

  @AfterEach
  void close() {
    client.close();
  }

  private NonNamespaceOperation<ConfigMap, ConfigMapList, Resource<ConfigMap>> maps() {
    return client.configMaps().inNamespace(namespace);
  }

  private RollableScalableResource<Deployment> deployment(String name, int replicas) {
    return client.apps().deployments().inNamespace(namespace).resource(body(name, replicas));
  }

  private static Deployment body(String name, int replicas) {
    var labels = Map.of("app", name);
    return new DeploymentBuilder()
        .withNewMetadata()
        .withName(name)
        .endMetadata()
        .withNewSpec()
        .withReplicas(replicas)
        .withNewSelector()
        .withMatchLabels(labels)
        .endSelector()
        .withNewTemplate()
        .withNewMetadata()
        .withLabels(labels)
        .endMetadata()
        .withNewSpec()
        .addNewContainer()
        .withName("main")
        .withImage("nginx:1")
        .endContainer()
        .endSpec()
        .endTemplate()
        .endSpec()
        .build();
  }

  private static ConfigMap map(String name, Map<String, String> data) {
    return new ConfigMapBuilder()
        .withNewMetadata()
        .withName(name)
        .endMetadata()
        .withData(data)
        .build();
  }

  private static KubernetesClientException fails(int code, String reason, Runnable call) {
    var error = assertThrows(KubernetesClientException.class, call::run);
    assertEquals(code, error.getCode(), error.getMessage());
    assertEquals(reason, error.getStatus().getReason());
    return error;
  }

  private static String user(KubernetesClient client) {
    var review = client.resource(new SelfSubjectReview()).create();
    return review.getStatus().getUserInfo().getUsername();
  }

  @Test
  void credentials() {
    assertEquals("kubernetes-admin", user(client));
    try (var other = clientOf(config("TOKEN_KUBECONFIG"))) {
      assertEquals("token-user", user(other));
    }
    var wrong = new ConfigBuilder(config("TOKEN_KUBECONFIG")).withOauthToken("wrong").build();
    wrong.setAutoOAuthToken(null);
    try (var other = clientOf(wrong)) {
      fails(401, "Unauthorized", () -> other.namespaces().list());
    }
    var stranger = config("TOKEN_KUBECONFIG");
    stranger.setCaCertData(null);
    stranger.setRequestRetryBackoffLimit(0);
    try (var other = clientOf(stranger)) {
      var error = assertThrows(KubernetesClientException.class, () -> other.namespaces().list());
      assertNull(error.getStatus(), error.getMessage()); // no response came
    }
  }

  @Test
  void versionAndDiscovery() {
    assertEquals("1", client.getKubernetesVersion().getMajor());
    assertTrue(client.hasApiGroup("apps", true));
    assertTrue(client.supports(Deployment.class));
    var resources = client.getApiResources("apps/v1").getResources();
    assertTrue(resources.stream().anyMatch(each -> each.getName().equals("deployments/scale")));
  }

  @Test
  void createGetReplaceDelete() {
    var created = maps().resource(map("a", Map.of("x", "1"))).create();
    assertEquals(created, maps().withName("a").get());
    created.setData(Map.of("x", "2"));
    var replaced = maps().resource(created).update();
    assertNotEquals(
        created.getMetadata().getResourceVersion(), replaced.getMetadata().getResourceVersion());
    var edited = maps().withName("a").edit(each -> edit(each, "3"));
    assertEquals(Map.of("x", "3"), edited.getData());
    assertEquals(1, maps().withName("a").delete().size());
    assertNull(maps().withName("a").get());
    maps().resource(map("dry", Map.of())).dryRun().create();
    assertNull(maps().withName("dry").get());
  }

  private static ConfigMap edit(ConfigMap map, String value) {
    return new ConfigMapBuilder(map).withData(Map.of("x", value)).build();
  }

  @Test
  void patches() {
    var map = maps().resource(map("a", Map.of("x", "1", "y", "1")));
    map.create();
    var merge = PatchContext.of(PatchType.JSON_MERGE);
    assertEquals(
        Map.of("y", "1"), map.patch(merge, "{\"data\":{\"x\":null}}").getData());
    var json = PatchContext.of(PatchType.JSON);
    var steps = "[{\"op\":\"replace\",\"path\":\"/data/y\",\"value\":\"2\"}]";
    assertEquals(Map.of("y", "2"), map.patch(json, steps).getData());
    fails(
        422,
        "Invalid",
        () -> map.patch(json, "[{\"op\":\"test\",\"path\":\"/data/y\",\"value\":\"1\"}]"));
    var deployment = deployment("a", 1);
    deployment.create();
    var strategic = PatchContext.of(PatchType.STRATEGIC_MERGE);
    var containers = "[{\"name\":\"side\",\"image\":\"side:1\"}]";
    var patched =
        deployment.patch(
            strategic, "{\"spec\":{\"template\":{\"spec\":{\"containers\":" + containers + "}}}}");
    var names =
        patched.getSpec().getTemplate().getSpec().getContainers().stream().map(c -> c.getName());
    assertEquals(List.of("side", "main"), names.toList());
  }

  @Test
  void serverSideApply() {
    var created = deployment("a", 1).fieldManager("first").serverSideApply();
    assertEquals("first", created.getMetadata().getManagedFields().get(0).getManager());
    var error =
        fails(
            409,
            "Conflict",
            () -> deployment("a", 2).fieldManager("second").serverSideApply());
    var cause = error.getStatus().getDetails().getCauses().get(0);
    assertEquals("FieldManagerConflict", cause.getReason());
    assertEquals(".spec.replicas", cause.getField());
    var forced = deployment("a", 2).fieldManager("second").forceConflicts().serverSideApply();
    assertEquals(2, forced.getSpec().getReplicas());
  }

  @Test
  void pages() {
    for (int index = 0; index < 7; index++) {
      var map = map("page-" + index, Map.of());
      map.getMetadata().setLabels(Map.of("pages", "yes"));
      maps().resource(map).create();
    }
    var names = new ArrayList<String>();
    var sizes = new ArrayList<Integer>();
    String token = null;
    do {
      var options = new ListOptionsBuilder().withLimit(3L).withContinue(token).build();
      var page = maps().withLabel("pages", "yes").list(options);
      sizes.add(page.getItems().size());
      page.getItems().forEach(item -> names.add(item.getMetadata().getName()));
      token = page.getMetadata().getContinue();
    } while (token != null && !token.isEmpty());
    assertEquals(List.of(3, 3, 1), sizes);
    assertEquals("page-0", names.get(0));
    assertEquals("page-6", names.get(6));
    maps().withLabel("pages", "yes").delete();
    assertEquals(List.of(), maps().withLabel("pages", "yes").list().getItems());
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void watch(boolean onlyHttp) throws Exception {
    client.getConfiguration().setOnlyHttpWatches(onlyHttp); // else over WebSocket
    var created = maps().resource(map("a", Map.of())).create();
    maps().withName("a").edit(each -> edit(each, "1"));
    maps().withName("a").delete();
    var events = new LinkedBlockingQueue<String>();
    var watcher =
        new Watcher<ConfigMap>() {
          @Override
          public void eventReceived(Action action, ConfigMap map) {
            events.add(action + " " + map.getMetadata().getName());
          }

          @Override
          public void onClose(WatcherException error) {
            events.add("closed");
          }
        };
    var options =
        new ListOptionsBuilder()
            .withResourceVersion(created.getMetadata().getResourceVersion())
            .withAllowWatchBookmarks(false)
            .build();
    try (Watch watch = maps().withField("metadata.name", "a").watch(options, watcher)) {
      assertEquals("MODIFIED a", next(events));
      assertEquals("DELETED a", next(events));
    }
  }

  private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
    return queue.poll(60, TimeUnit.SECONDS);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void informer(boolean onlyHttp) throws Exception {
    client.getConfiguration().setOnlyHttpWatches(onlyHttp);
    maps().resource(map("early", Map.of())).create();
    var events = new LinkedBlockingQueue<String>();
    var handler =
        new ResourceEventHandler<ConfigMap>() {
          @Override
          public void onAdd(ConfigMap map) {
            events.add("add " + map.getMetadata().getName());
          }

          @Override
          public void onUpdate(ConfigMap before, ConfigMap after) {
            events.add("update " + after.getMetadata().getName());
          }

          @Override
          public void onDelete(ConfigMap map, boolean unknown) {
            events.add("delete " + map.getMetadata().getName());
          }
        };
    try (SharedIndexInformer<ConfigMap> informer =
        maps().withoutField("metadata.name", "kube-root-ca.crt").inform(handler)) {
      assertEquals("add early", next(events));
      maps().resource(map("late", Map.of())).create();
      assertEquals("add late", next(events));
      maps().withName("late").edit(each -> edit(each, "1"));
      assertEquals("update late", next(events));
      maps().withName("late").delete();
      assertEquals("delete late", next(events));
      assertNotNull(informer.getIndexer().getByKey(namespace + "/early"));
    }
  }

  @Test
  void scaleAndStatus() {
    deployment("a", 1).create();
    var deployment = client.apps().deployments().inNamespace(namespace).withName("a");
    assertEquals(3, deployment.scale(3).getSpec().getReplicas());
    assertEquals(3, deployment.scale().getSpec().getReplicas());
    var status = PatchContext.of(PatchType.JSON_MERGE);
    var patched =
        deployment
            .subresource("status")
            .patch(status, "{\"spec\":{\"replicas\":9},\"status\":{\"observedGeneration\":7}}");
    assertEquals(7, patched.getStatus().getObservedGeneration());
    assertEquals(3, patched.getSpec().getReplicas());
  }

  @Test
  void deleteWithPropagation() {
    var owner = maps().resource(map("owner", Map.of())).create();
    var dependent = map("dependent", Map.of());
    var reference =
        new OwnerReferenceBuilder()
            .withApiVersion("v1")
            .withKind("ConfigMap")
            .withName("owner")
            .withUid(owner.getMetadata().getUid())
            .withBlockOwnerDeletion(true);
    dependent.getMetadata().setOwnerReferences(List.of(reference.build()));
    maps().resource(dependent).create();
    maps().withName("owner").withPropagationPolicy(DeletionPropagation.FOREGROUND).delete();
    for (var name : List.of("dependent", "owner")) {
      maps().withName(name).waitUntilCondition(each -> each == null, 60, TimeUnit.SECONDS);
    }
  }

  @Test
  void errors() {
    var stale = maps().resource(map("a", Map.of())).create();
    fails(409, "AlreadyExists", () -> maps().resource(map("a", Map.of())).create());
    fails(422, "Invalid", () -> maps().resource(map("No!", Map.of())).create());
    maps().withName("a").edit(each -> edit(each, "1"));
    fails(
        409,
        "Conflict",
        () -> maps().resource(edit(stale, "2")).lockResourceVersion().update());
    fails(400, "BadRequest", () -> maps().withLabelSelector("a in b").list());
  }

  @Test
  void customObjects() {
    var group = "fabric8.example.com";
    var definition = Gadgets.definition(group).getBytes(StandardCharsets.UTF_8);
    var definitions = client.apiextensions().v1().customResourceDefinitions();
    var created = definitions.load(new ByteArrayInputStream(definition)).create();
    definitions
        .withName(created.getMetadata().getName())
        .waitUntilCondition(
            each ->
                each.getStatus() != null
                    && each.getStatus().getConditions().stream()
                        .anyMatch(
                            condition ->
                                condition.getType().equals("Established")
                                    && condition.getStatus().equals("True")),
            60,
            TimeUnit.SECONDS);
    var context = CustomResourceDefinitionContext.fromCrd(created);
    var gadgets = client.genericKubernetesResources(context).inNamespace(namespace);
    var gadget = gadgets.resource(gadget(group, 1)).create();
    Map<String, Object> spec = gadget.get("spec");
    assertEquals(Map.of("size", 1, "color", "blue"), spec);
    fails(422, "Invalid", () -> gadgets.resource(gadget(group, 10)).create());
    var one = gadgets.withName("a");
    var merge = PatchContext.of(PatchType.JSON_MERGE);
    assertEquals(2, one.patch(merge, "{\"spec\":{\"size\":2}}").<Integer>get("spec", "size"));
    fails(
        415,
        "UnsupportedMediaType",
        () -> one.patch(PatchContext.of(PatchType.STRATEGIC_MERGE), "{\"spec\":{\"size\":3}}"));
    var applied =
        gadgets.resource(gadget(group, 3)).fieldManager("me").forceConflicts().serverSideApply();
    assertEquals(3, applied.<Integer>get("spec", "size"));
    var reported = one.subresource("status").patch(merge, "{\"status\":{\"size\":1}}");
    assertEquals(1, reported.<Integer>get("status", "size"));
    assertEquals(4, one.scale(4).<Integer>get("spec", "size"));
    assertEquals(1, gadgets.list().getItems().size());
    assertFalse(one.delete().isEmpty());
  }

  private static GenericKubernetesResource gadget(String group, int size) {
    var gadget = new GenericKubernetesResource();
    gadget.setApiVersion(group + "/" + Gadgets.VERSION);
    gadget.setKind("Gadget");
    gadget.setMetadata(
        new io.fabric8.kubernetes.api.model.ObjectMetaBuilder().withName("a").build());
    gadget.setAdditionalProperty("spec", Map.of("size", size));
    return gadget;
  }

  @Test
  void leaderElection() throws Exception {
    var events = new LinkedBlockingQueue<String>();
    var first = elect("first", events);
    assertEquals("first leads", next(events));
    var second = elect("second", events);
    first.cancel(true);
    assertEquals("first stops", next(events));
    assertEquals("second leads", next(events));
    var lease = client.leases().inNamespace(namespace).withName("lock").get();
    assertEquals("second", lease.getSpec().getHolderIdentity());
    second.cancel(true);
    assertEquals("second stops", next(events));
  }

  private CompletableFuture<?> elect(String name, BlockingQueue<String> events) {
    var callbacks =
        new LeaderCallbacks(
            () -> events.add(name + " leads"), () -> events.add(name + " stops"), leader -> {});
    var election =
        new LeaderElectionConfigBuilder()
            .withName(name)
            .withLock(new LeaseLock(namespace, "lock", name))
            .withLeaseDuration(Duration.ofSeconds(30))
            .withRenewDeadline(Duration.ofSeconds(20))
            .withRetryPeriod(Duration.ofMillis(200))
            .withReleaseOnCancel()
            .withLeaderCallbacks(callbacks)
            .build();
    return client.leaderElector().withConfig(election).build().start();
  }
}
