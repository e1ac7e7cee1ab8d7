// Package streams tests the streams of client-go against a kapiserver that simulates a node and may
// use the machine's network. KUBECONFIG names the server.
package streams

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	streamhttp "k8s.io/streaming/pkg/httpstream"
)

const (
	prefix  = "simulation.kapiserver.dev/"
	answers = `[{"command": ["fail"], "stdout": "out\n", "stderr": "err\n", "exitCode": 3}]`
)

func connect(t *testing.T) (*rest.Config, *kubernetes.Clientset) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", clientcmd.NewDefaultClientConfigLoadingRules().GetDefaultFilename())
	if err != nil {
		t.Fatal(err)
	}
	return config, kubernetes.NewForConfigOrDie(config)
}

// runPod creates a pod that ends with the test, and waits until it runs.
func runPod(t *testing.T, client *kubernetes.Clientset, name string) {
	t.Helper()
	pods := client.CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{prefix + "exec": answers}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx"}}},
	}
	create := func(ctx context.Context) (bool, error) {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err == nil, nil // the service account may be missing at first
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := int64(0)
		_ = pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	runs := func(ctx context.Context) (bool, error) {
		found, err := pods.Get(ctx, name, metav1.GetOptions{})
		return err == nil && found.Status.Phase == corev1.PodRunning, err
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, runs); err != nil {
		t.Fatal(err)
	}
}

// commandURL is where to run a command; it asks for standard input, output and error.
func commandURL(client *kubernetes.Clientset, pod string, command ...string) *url.URL {
	options := &corev1.PodExecOptions{Command: command, Stdin: true, Stdout: true, Stderr: true}
	return client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).
		SubResource("exec").VersionedParams(options, scheme.ParameterCodec).URL()
}

type newExecutor func(config *rest.Config, where *url.URL) (remotecommand.Executor, error)

func overSPDY(config *rest.Config, where *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewSPDYExecutor(config, http.MethodPost, where)
}

func overWebSocket(config *rest.Config, where *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewWebSocketExecutor(config, http.MethodGet, where.String())
}

// withFallback uses SPDY, because no server knows the protocol that it asks for over WebSocket.
func withFallback(config *rest.Config, where *url.URL) (remotecommand.Executor, error) {
	primary, err := remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, where.String(), "v99.channel.k8s.io")
	if err != nil {
		return nil, err
	}
	secondary, err := overSPDY(config, where)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(primary, secondary, streamhttp.IsUpgradeFailure)
}

var executors = map[string]newExecutor{"SPDY": overSPDY, "WebSocket": overWebSocket, "fallback": withFallback}

func TestExec(t *testing.T) {
	config, client := connect(t)
	runPod(t, client, "exec")
	data := make([]byte, 300_000)
	_, _ = rand.Read(data)
	for name, construct := range executors {
		run := func(input []byte, command ...string) (string, string, error) {
			executor, err := construct(config, commandURL(client, "exec", command...))
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			options := remotecommand.StreamOptions{Stdin: bytes.NewReader(input), Stdout: &stdout, Stderr: &stderr}
			err = executor.StreamWithContext(t.Context(), options)
			return stdout.String(), stderr.String(), err
		}
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := run(nil, "fail")
			ended, ok := err.(exec.CodeExitError)
			if stdout != "out\n" || stderr != "err\n" || !ok || ended.Code != 3 {
				t.Fatal(stdout, stderr, err)
			}
			stdout, stderr, err = run(data, "cat")
			if stdout != string(data) || stderr != "" || err != nil {
				t.Fatal(len(stdout), stderr, err)
			}
			_, _, err = run(nil, "none")
			if ended, ok = err.(exec.CodeExitError); !ok || ended.Code != 127 {
				t.Fatal(err)
			}
		})
	}
}

// TestAttach gets the lines that a container writes until it ends.
func TestAttach(t *testing.T) {
	config, client := connect(t)
	for name, construct := range executors {
		t.Run(name, func(t *testing.T) {
			pod := "attach-" + strings.ToLower(name)
			runPod(t, client, pod)
			options := &corev1.PodAttachOptions{Stdout: true, Stderr: true}
			where := client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).
				SubResource("attach").VersionedParams(options, scheme.ParameterCodec).URL()
			executor, err := construct(config, where)
			if err != nil {
				t.Fatal(err)
			}
			reader, writer := io.Pipe()
			done := make(chan error, 1)
			go func() {
				done <- executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: writer, Stderr: io.Discard})
				_ = writer.Close()
			}()
			// A line that is written before the stream opens is not shown.
			lines := make(chan string, 1)
			go func() {
				line, _ := bufio.NewReader(reader).ReadString('\n')
				lines <- line
				_, _ = io.Copy(io.Discard, reader)
			}()
			write := func(ctx context.Context) (bool, error) {
				annotate(t, client, pod, "log", fmt.Sprintln(time.Now().UTC().Format(time.RFC3339Nano), "hello"))
				select {
				case line := <-lines:
					if line != "hello\n" {
						t.Error(line)
					}
					return true, nil
				case <-time.After(100 * time.Millisecond):
					annotate(t, client, pod, "log", "")
					return false, nil
				}
			}
			if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, write); err != nil {
				t.Fatal(err)
			}
			annotate(t, client, pod, "exit-code", "0")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func annotate(t *testing.T, client *kubernetes.Clientset, pod, name, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, prefix+name, value)
	_, err := client.CoreV1().Pods("default").Patch(t.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLogs(t *testing.T) {
	_, client := connect(t)
	runPod(t, client, "logs")
	logs, err := client.CoreV1().Pods("default").GetLogs("logs", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	reader := bufio.NewReader(logs)
	line, err := reader.ReadString('\n')
	if !strings.HasPrefix(line, "simulated container app: started") || err != nil {
		t.Fatal(line, err)
	}
	annotate(t, client, "logs", "log", "hello")
	if line, err = reader.ReadString('\n'); line != "hello\n" || err != nil {
		t.Fatal(line, err)
	}
	one := int64(1)
	last, err := client.CoreV1().Pods("default").GetLogs("logs", &corev1.PodLogOptions{TailLines: &one, Timestamps: true}).DoRaw(t.Context())
	if !strings.HasSuffix(string(last), "Z hello\n") || err != nil {
		t.Fatal(string(last), err)
	}
	_, err = client.CoreV1().Pods("default").GetLogs("logs", &corev1.PodLogOptions{Previous: true}).Stream(t.Context())
	if err == nil || !strings.Contains(err.Error(), `previous terminated container "app" in pod "logs" not found`) {
		t.Fatal(err)
	}
}

// echo is the port of a server that sends back what it gets.
func echo(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(connection, connection)
				_ = connection.Close()
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// forward lets port 7 of a pod lead to a port of this machine.
func forward(t *testing.T, client *kubernetes.Clientset, pod string, port int) {
	t.Helper()
	object := fmt.Sprintf(`{"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "PortForward", "metadata": {"name": %q},
		"spec": {"forwards": [{"ports": [7], "target": {"address": "127.0.0.1", "port": %d}}]}}`, pod, port)
	path := "/apis/kwok.x-k8s.io/v1alpha1/namespaces/default/portforwards"
	if err := client.RESTClient().Post().AbsPath(path).Body([]byte(object)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

func TestPortForward(t *testing.T) {
	config, client := connect(t)
	runPod(t, client, "forward")
	forward(t, client, "forward", echo(t))
	where := client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("forward").
		SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	plain := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, where)
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(where, config)
	if err != nil {
		t.Fatal(err)
	}
	dialers := map[string]httpstream.Dialer{
		"SPDY":      plain,
		"WebSocket": tunnel,
		"fallback":  portforward.NewFallbackDialer(tunnel, plain, httpstream.IsUpgradeFailure),
	}
	for name, dialer := range dialers {
		t.Run(name, func(t *testing.T) {
			stop, ready := make(chan struct{}), make(chan struct{})
			forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:7"}, stop, ready, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- forwarder.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-done:
				t.Fatal(err)
			}
			ports, err := forwarder.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			data := make([]byte, 300_000)
			_, _ = rand.Read(data)
			for range 2 {
				echoed, err := exchange(int(ports[0].Local), data)
				if err != nil || !bytes.Equal(echoed, data) {
					t.Fatal(len(echoed), err)
				}
			}
			close(stop)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// exchange sends data to a local port, closes its half of the connection, and returns the answer.
func exchange(port int, data []byte) ([]byte, error) {
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	go func() {
		_, _ = connection.Write(data)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	return io.ReadAll(connection)
}
