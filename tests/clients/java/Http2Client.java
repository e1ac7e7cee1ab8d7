import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Java's own HTTP client over HTTP/2. Arguments: URL, file of the CA, bearer token. */
class Http2Client {
  private final String url;
  private final String token;
  private final HttpClient client;

  Http2Client(String url, String caFile, String token) throws Exception {
    this.url = url;
    this.token = token;
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (FileInputStream file = new FileInputStream(caFile)) {
      trusted.setCertificateEntry(
          "ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
    }
    TrustManagerFactory managers =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    managers.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, managers.getTrustManagers(), null);
    client =
        HttpClient.newBuilder().sslContext(context).version(HttpClient.Version.HTTP_2).build();
  }

  public static void main(String[] arguments) throws Exception {
    Http2Client test = new Http2Client(arguments[0], arguments[1], arguments[2]);
    test.readsAtOnce();
    test.createsAndWatches();
    System.out.println("ok");
  }

  private HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create(url + path)).header("Authorization", "Bearer " + token);
  }

  private static HttpResponse<String> check(HttpResponse<String> response, int status) {
    if (response.version() != HttpClient.Version.HTTP_2 || response.statusCode() != status) {
      throw new AssertionError(response.version() + " " + response + " " + response.body());
    }
    return response;
  }

  /** Fifty requests at a time share a connection. */
  private void readsAtOnce() throws Exception {
    HttpRequest request = request("/api/v1/namespaces").build();
    check(client.send(request, BodyHandlers.ofString()), 200);
    List<CompletableFuture<HttpResponse<String>>> responses = new ArrayList<>();
    for (int number = 0; number < 50; number++) {
      responses.add(client.sendAsync(request, BodyHandlers.ofString()));
    }
    for (CompletableFuture<HttpResponse<String>> response : responses) {
      check(response.get(), 200);
    }
  }

  /** A body that is larger than a window arrives whole; a watch delivers events and ends. */
  private void createsAndWatches() throws Exception {
    String path = "/api/v1/namespaces/default/configmaps";
    String value = "x".repeat(600_000);
    String body = "{\"metadata\": {\"name\": \"java-http2\"}, \"data\": {\"a\": \"" + value + "\"}}";
    HttpRequest create =
        request(path)
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
    check(client.send(create, BodyHandlers.ofString()), 201);
    HttpRequest watch = request(path + "?watch=1&timeoutSeconds=1").build();
    String events = check(client.send(watch, BodyHandlers.ofString()), 200).body();
    if (!events.contains("\"type\":\"ADDED\"") || !events.contains(value)) {
      throw new AssertionError("no event of the object");
    }
    check(client.send(request(path + "/java-http2").DELETE().build(), BodyHandlers.ofString()), 200);
  }
}
