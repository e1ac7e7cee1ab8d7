package clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.custom.V1Patch;
import io.kubernetes.client.informer.ResourceEventHandler;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.informer.cache.Lister;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.ApiextensionsV1Api;
import io.kubernetes.client.openapi.apis.AppsV1Api;
import io.kubernetes.client.openapi.apis.AuthenticationV1Api;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.apis.VersionApi;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.openapi.models.V1CustomResourceDefinition;
import io.kubernetes.client.openapi.models.V1DeleteOptions;
import io.kubernetes.client.openapi.models.V1Deployment;
import io.kubernetes.client.openapi.models.V1Namespace;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.openapi.models.V1OwnerReference;
import io.kubernetes.client.openapi.models.V1SelfSubjectReview;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import io.kubernetes.client.util.PatchUtils;
import io.kubernetes.client.util.Watch;
import io.kubernetes.client.util.Yaml;
import io.kubernetes.client.util.credentials.AccessTokenAuthentication;
import io.kubernetes.client.util.generic.dynamic.DynamicKubernetesApi;
import io.kubernetes.client.util.generic.dynamic.DynamicKubernetesObject;
import io.kubernetes.client.util.generic.options.PatchOptions;
import java.io.FileReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLException;
import okhttp3.Call;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The official Java client against the server of the environment variable KUBECONFIG. */
class OfficialTest {
  private ApiClient client;
  private CoreV1Api core;
  private AppsV1Api apps;
  private String namespace;

  private interface CallSupplier<T> {
    T get() throws ApiException;
  }

  private interface PatchCall {
    Call build(V1Patch patch) throws ApiException;
  }

  private static ClientBuilder builder(String variable) throws Exception {
    try (var reader = new FileReader(System.getenv(variable))) {
      return ClientBuilder.kubeconfig(KubeConfig.loadKubeConfig(reader));
    }
  }

  @BeforeEach
  void connect() throws Exception {
    client = builder("KUBECONFIG").build();
    core = new CoreV1Api(client);
    apps = new AppsV1Api(client);
    var body = new V1Namespace().metadata(new V1ObjectMeta().generateName("java-"));
    namespace = core.createNamespace(body).execute().getMetadata().getName();
  }

  private V1ConfigMap create(String name, Map<String, String> data) throws ApiException {
    return core.createNamespacedConfigMap(namespace, map(name, data)).execute();
  }

  private static V1ConfigMap map(String name, Map<String, String> data) {
    return new V1ConfigMap().metadata(new V1ObjectMeta().name(name)).data(data);
  }

  private V1Deployment createDeployment(String name) throws Exception {
    var body = Yaml.loadAs(deployment(name, 1), V1Deployment.class);
    return apps.createNamespacedDeployment(namespace, body).execute();
  }

  private static String deployment(String name, int replicas) {
    return """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: %1$s}
        spec:
          replicas: %2$d
          selector: {matchLabels: {app: %1$s}}
          template:
            metadata: {labels: {app: %1$s}}
            spec:
              containers: [{name: main, image: "nginx:1"}]
        """
        .formatted(name, replicas);
  }

  private <T> T patch(Class<T> type, String format, String body, PatchCall call)
      throws ApiException {
    return PatchUtils.patch(type, () -> call.build(new V1Patch(body)), format, client);
  }

  private static JsonObject fails(int code, String reason, CallSupplier<?> call) {
    var error = assertThrows(ApiException.class, call::get);
    assertEquals(code, error.getCode(), error.getResponseBody());
    var status = JsonParser.parseString(error.getResponseBody()).getAsJsonObject();
    assertEquals(reason, status.get("reason").getAsString());
    return status;
  }

  private static String user(ApiClient client) throws ApiException {
    var api = new AuthenticationV1Api(client);
    var review = api.createSelfSubjectReview(new V1SelfSubjectReview()).execute();
    return review.getStatus().getUserInfo().getUsername();
  }

  @Test
  void credentials() throws Exception {
    assertEquals("kubernetes-admin", user(client));
    assertEquals("token-user", user(builder("TOKEN_KUBECONFIG").build()));
    var wrong = builder("TOKEN_KUBECONFIG");
    wrong.setAuthentication(new AccessTokenAuthentication("wrong"));
    var unknown = new CoreV1Api(wrong.build());
    fails(401, "Unauthorized", () -> unknown.listNamespace().execute());
    var stranger =
        new CoreV1Api(builder("TOKEN_KUBECONFIG").setCertificateAuthority(null).build());
    var error = assertThrows(ApiException.class, () -> stranger.listNamespace().execute());
    assertInstanceOf(SSLException.class, error.getCause());
  }

  @Test
  void version() throws Exception {
    assertEquals("1", new VersionApi(client).getCode().execute().getMajor());
    var resources = apps.getAPIResources().execute().getResources();
    assertTrue(resources.stream().anyMatch(each -> each.getName().equals("deployments/scale")));
  }

  @Test
  void createReadReplaceDelete() throws Exception {
    var created = create("a", Map.of("x", "1"));
    assertEquals(created, core.readNamespacedConfigMap("a", namespace).execute());
    var body = map("a", Map.of("x", "2"));
    var replaced = core.replaceNamespacedConfigMap("a", namespace, body).execute();
    assertNotEquals(
        created.getMetadata().getResourceVersion(), replaced.getMetadata().getResourceVersion());
    var status = core.deleteNamespacedConfigMap("a", namespace).execute();
    assertEquals("Success", status.getStatus());
    fails(404, "NotFound", () -> core.readNamespacedConfigMap("a", namespace).execute());
    core.createNamespacedConfigMap(namespace, map("dry", Map.of())).dryRun("All").execute();
    fails(404, "NotFound", () -> core.readNamespacedConfigMap("dry", namespace).execute());
  }

  @Test
  void patches() throws Exception {
    create("a", Map.of("x", "1", "y", "1"));
    PatchCall call = body -> core.patchNamespacedConfigMap("a", namespace, body).buildCall(null);
    var merged =
        patch(
            V1ConfigMap.class,
            V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH,
            "{\"data\":{\"x\":null}}",
            call);
    assertEquals(Map.of("y", "1"), merged.getData());
    var steps = "[{\"op\":\"test\",\"path\":\"/data/y\",\"value\":\"1\"},"
        + "{\"op\":\"replace\",\"path\":\"/data/y\",\"value\":\"2\"}]";
    var patched = patch(V1ConfigMap.class, V1Patch.PATCH_FORMAT_JSON_PATCH, steps, call);
    assertEquals(Map.of("y", "2"), patched.getData());
    fails(
        422,
        "Invalid",
        () -> patch(V1ConfigMap.class, V1Patch.PATCH_FORMAT_JSON_PATCH, steps, call));
    createDeployment("a");
    var strategic =
        patch(
            V1Deployment.class,
            V1Patch.PATCH_FORMAT_STRATEGIC_MERGE_PATCH,
            "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"side\",\"image\":\"i\"}]}}}}",
            body -> apps.patchNamespacedDeployment("a", namespace, body).buildCall(null));
    var containers = strategic.getSpec().getTemplate().getSpec().getContainers();
    assertEquals(List.of("side", "main"), containers.stream().map(c -> c.getName()).toList());
  }

  @Test
  void serverSideApply() throws Exception {
    var created = apply(1, "first", null);
    assertEquals(1, created.getSpec().getReplicas());
    var status = fails(409, "Conflict", () -> apply(2, "second", null));
    var cause = status.getAsJsonObject("details").getAsJsonArray("causes").get(0);
    assertEquals(".spec.replicas", cause.getAsJsonObject().get("field").getAsString());
    assertEquals(2, apply(2, "second", true).getSpec().getReplicas());
  }

  private V1Deployment apply(int replicas, String manager, Boolean force) throws ApiException {
    return patch(
        V1Deployment.class,
        V1Patch.PATCH_FORMAT_APPLY_YAML,
        deployment("a", replicas),
        body ->
            apps.patchNamespacedDeployment("a", namespace, body)
                .fieldManager(manager)
                .force(force)
                .buildCall(null));
  }

  @Test
  void pages() throws Exception {
    for (int index = 0; index < 7; index++) {
      var body = map("page-" + index, Map.of());
      body.getMetadata().setLabels(Map.of("pages", "yes"));
      core.createNamespacedConfigMap(namespace, body).execute();
    }
    var names = new ArrayList<String>();
    var sizes = new ArrayList<Integer>();
    String token = null;
    do {
      var request = core.listNamespacedConfigMap(namespace).labelSelector("pages=yes").limit(3);
      var page = request._continue(token).execute();
      sizes.add(page.getItems().size());
      page.getItems().forEach(item -> names.add(item.getMetadata().getName()));
      token = page.getMetadata().getContinue();
    } while (token != null);
    assertEquals(List.of(3, 3, 1), sizes);
    assertEquals("page-0", names.get(0));
    assertEquals("page-6", names.get(6));
    core.deleteCollectionNamespacedConfigMap(namespace).labelSelector("pages=yes").execute();
    var rest = core.listNamespacedConfigMap(namespace).labelSelector("pages=yes").execute();
    assertEquals(List.of(), rest.getItems());
  }

  @Test
  void watchAndBookmarks() throws Exception {
    var created = create("a", Map.of());
    core.replaceNamespacedConfigMap("a", namespace, map("a", Map.of("x", "1"))).execute();
    core.deleteNamespacedConfigMap("a", namespace).execute();
    var call =
        core.listNamespacedConfigMap(namespace)
            .watch(true)
            .resourceVersion(created.getMetadata().getResourceVersion())
            .fieldSelector("metadata.name=a")
            .allowWatchBookmarks(true)
            .timeoutSeconds(1)
            .buildCall(null);
    var types = new ArrayList<String>();
    var type = new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType();
    try (Watch<V1ConfigMap> watch = Watch.createWatch(client, call, type)) {
      watch.forEach(event -> types.add(event.type));
    }
    assertEquals(List.of("MODIFIED", "DELETED", "BOOKMARK"), types);
  }

  @Test
  void informer() throws Exception {
    create("early", Map.of());
    var factory = new SharedInformerFactory(client);
    var informer =
        factory.sharedIndexInformerFor(
            parameters ->
                core.listNamespacedConfigMap(namespace)
                    .fieldSelector("metadata.name!=kube-root-ca.crt")
                    .resourceVersion(parameters.resourceVersion)
                    .timeoutSeconds(1) // the informer watches again each second
                    .watch(parameters.watch)
                    .buildCall(null),
            V1ConfigMap.class,
            V1ConfigMapList.class);
    var events = new LinkedBlockingQueue<String>();
    informer.addEventHandler(
        new ResourceEventHandler<V1ConfigMap>() {
          @Override
          public void onAdd(V1ConfigMap map) {
            events.add("add " + map.getMetadata().getName());
          }

          @Override
          public void onUpdate(V1ConfigMap before, V1ConfigMap after) {
            events.add("update " + after.getMetadata().getName());
          }

          @Override
          public void onDelete(V1ConfigMap map, boolean unknown) {
            events.add("delete " + map.getMetadata().getName());
          }
        });
    factory.startAllRegisteredInformers();
    try {
      assertEquals("add early", next(events));
      for (int round = 0; round < 3; round++) {
        TimeUnit.MILLISECONDS.sleep(600); // a watch ends in one of the rounds
        create("late", Map.of());
        assertEquals("add late", next(events));
        core.replaceNamespacedConfigMap("late", namespace, map("late", Map.of("x", "1"))).execute();
        assertEquals("update late", next(events));
        core.deleteNamespacedConfigMap("late", namespace).execute();
        assertEquals("delete late", next(events));
      }
      var lister = new Lister<>(informer.getIndexer(), namespace);
      assertNotNull(lister.get("early"));
    } finally {
      factory.stopAllRegisteredInformers();
    }
  }

  private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
    return queue.poll(60, TimeUnit.SECONDS);
  }

  @Test
  void scaleAndStatus() throws Exception {
    createDeployment("a");
    var scale = apps.readNamespacedDeploymentScale("a", namespace).execute();
    scale.getSpec().setReplicas(3);
    apps.replaceNamespacedDeploymentScale("a", namespace, scale).execute();
    var patched =
        patch(
            V1Deployment.class,
            V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH,
            "{\"spec\":{\"replicas\":9},\"status\":{\"observedGeneration\":7}}",
            body -> apps.patchNamespacedDeploymentStatus("a", namespace, body).buildCall(null));
    assertEquals(7, patched.getStatus().getObservedGeneration());
    assertEquals(3, patched.getSpec().getReplicas());
  }

  @Test
  void deleteWithPropagation() throws Exception {
    var owner = create("owner", Map.of());
    var reference =
        new V1OwnerReference()
            .apiVersion("v1")
            .kind("ConfigMap")
            .name("owner")
            .uid(owner.getMetadata().getUid())
            .blockOwnerDeletion(true);
    var dependent = map("dependent", Map.of());
    dependent.getMetadata().setOwnerReferences(List.of(reference));
    var created = core.createNamespacedConfigMap(namespace, dependent).execute();
    var call =
        core.listNamespacedConfigMap(namespace)
            .watch(true)
            .resourceVersion(created.getMetadata().getResourceVersion())
            .buildCall(null);
    var options = new V1DeleteOptions().propagationPolicy("Foreground");
    core.deleteNamespacedConfigMap("owner", namespace).body(options).execute();
    var type = new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType();
    var deleted = new ArrayList<String>();
    try (Watch<V1ConfigMap> watch = Watch.createWatch(client, call, type)) {
      while (!deleted.contains("owner")) {
        var event = watch.next();
        if (event.type.equals("DELETED")) {
          deleted.add(event.object.getMetadata().getName());
        }
      }
    }
    assertEquals(List.of("dependent", "owner"), deleted);
  }

  @Test
  void errors() throws Exception {
    var stale = create("a", Map.of());
    fails(409, "AlreadyExists", () -> create("a", Map.of()));
    fails(422, "Invalid", () -> create("No!", Map.of()));
    core.replaceNamespacedConfigMap("a", namespace, map("a", Map.of("x", "1"))).execute();
    fails(
        409,
        "Conflict",
        () -> core.replaceNamespacedConfigMap("a", namespace, stale).execute());
    fails(
        400,
        "BadRequest",
        () -> core.listNamespacedConfigMap(namespace).labelSelector("a in b").execute());
  }

  @Test
  void customObjects() throws Exception {
    var group = "java.example.com";
    var definition = Yaml.loadAs(Gadgets.definition(group), V1CustomResourceDefinition.class);
    var definitions = new ApiextensionsV1Api(client);
    definitions.createCustomResourceDefinition(definition).execute();
    var call =
        definitions
            .listCustomResourceDefinition()
            .fieldSelector("metadata.name=gadgets." + group)
            .watch(true)
            .buildCall(null);
    var type = new TypeToken<Watch.Response<V1CustomResourceDefinition>>() {}.getType();
    try (Watch<V1CustomResourceDefinition> watch = Watch.createWatch(client, call, type)) {
      while (!established(watch.next().object)) {}
    }
    var gadgets = new DynamicKubernetesApi(group, Gadgets.VERSION, Gadgets.PLURAL, client);
    var created = gadgets.create(gadget(group, 1)).throwsApiException().getObject();
    var spec = created.getRaw().getAsJsonObject("spec");
    assertEquals("{\"size\":1,\"color\":\"blue\"}", sorted(spec));
    var invalid = gadgets.create(gadget(group, 10));
    assertFalse(invalid.isSuccess());
    assertEquals(422, invalid.getHttpStatusCode());
    assertEquals("Invalid", invalid.getStatus().getReason());
    var merge = V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH;
    var patched =
        gadgets.patch(namespace, "a", merge, new V1Patch("{\"spec\":{\"size\":2}}")).getObject();
    assertEquals(2, size(patched));
    var strategic = V1Patch.PATCH_FORMAT_STRATEGIC_MERGE_PATCH;
    assertEquals(
        415, gadgets.patch(namespace, "a", strategic, new V1Patch("{}")).getHttpStatusCode());
    var options = new PatchOptions().fieldManager("me").force(true);
    var applied = gadget(group, 3).getRaw();
    applied.getAsJsonObject("metadata").remove("managedFields"); // an empty one is refused
    var body = new V1Patch(applied.toString());
    var apply = V1Patch.PATCH_FORMAT_APPLY_YAML;
    assertEquals(3, size(gadgets.patch(namespace, "a", apply, body, options).getObject()));
    var changed = gadgets.get(namespace, "a").getObject();
    var status = new JsonObject();
    status.addProperty("size", 1);
    changed.getRaw().add("status", status);
    var reported = gadgets.updateStatus(changed, each -> each.getRaw().get("status"));
    assertTrue(reported.isSuccess());
    assertEquals(1, gadgets.list(namespace).getObject().getItems().size());
    assertTrue(gadgets.delete(namespace, "a").isSuccess());
    assertEquals(404, gadgets.get(namespace, "a").getHttpStatusCode());
  }

  private static boolean established(V1CustomResourceDefinition definition) {
    var status = definition.getStatus();
    return status != null
        && status.getConditions() != null
        && status.getConditions().stream()
            .anyMatch(each -> each.getType().equals("Established") && each.getStatus().equals("True"));
  }

  private static String sorted(JsonObject spec) {
    return "{\"size\":" + spec.get("size") + ",\"color\":" + spec.get("color") + "}";
  }

  private static int size(DynamicKubernetesObject gadget) {
    return gadget.getRaw().getAsJsonObject("spec").get("size").getAsInt();
  }

  private DynamicKubernetesObject gadget(String group, int size) {
    var spec = new JsonObject();
    spec.addProperty("size", size);
    var gadget = new DynamicKubernetesObject();
    gadget.setApiVersion(group + "/" + Gadgets.VERSION);
    gadget.setKind("Gadget");
    gadget.setMetadata(new V1ObjectMeta().name("a").namespace(namespace));
    gadget.getRaw().add("spec", spec);
    return gadget;
  }
}
