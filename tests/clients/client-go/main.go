// What programs on client-go do against an API server, with a check of what comes of it. A subcommand is one story: it ends with 0
// and says nothing if all is as it should be, and with the line that found something else. The server has to serve /_pvbind/.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long anything may take; it only matters when something is broken.
const patience = 60 * time.Second

// namespace is where all of it happens.
const namespace = "default"

const (
	jsonForm     = "application/json"
	protobufForm = "application/vnd.kubernetes.protobuf"
)

// forms says which types of content the server answered with, and how often.
type forms struct {
	next http.RoundTripper
	lock sync.Mutex
	seen map[string]int
}

func (f *forms) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(request)
	if err == nil {
		form, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		f.lock.Lock()
		f.seen[form]++
		f.lock.Unlock()
	}
	return response, err
}

// only fails if the server answered in another form, or never in one of these.
func (f *forms) only(expected ...string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	right := len(f.seen) == len(expected)
	for _, form := range expected {
		right = right && f.seen[form] > 0
	}
	expect(right, "answers in %v, and not in %v", f.seen, expected)
}

// watched is a configuration whose answers' forms are noted.
func watched(config *rest.Config) (*rest.Config, *forms) {
	noted := &forms{seen: map[string]int{}}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		noted.next = next
		return noted
	})
	return config, noted
}

// in is a configuration that asks for one form; typed clients ask for protocol buffers by themselves.
func in(config *rest.Config, form string) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = form
	config.AcceptContentTypes = form
	return config
}

// fail ends the program with the place that asked whoever calls this.
func fail(format string, arguments ...any) {
	_, file, line, _ := runtime.Caller(2)
	fmt.Fprintf(os.Stderr, "%s:%d: %s\n", filepath.Base(file), line, fmt.Sprintf(format, arguments...))
	os.Exit(1)
}

func expect(right bool, format string, arguments ...any) {
	if !right {
		fail(format, arguments...)
	}
}

func done(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

// refused expects an error of a kind, such as apierrors.IsConflict.
func refused[T any](is func(error) bool) func(T, error) {
	return func(value T, err error) {
		if !is(err) {
			fail("refused in another way: %v, %v", value, err)
		}
	}
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		fail("%s instead of %s", text(found), text(expected))
	}
}

func text(value any) string {
	written, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%#v", value)
	}
	return string(written)
}

// plain is an object as its fields, without kind and version, which only some answers name.
func plain(object kuberuntime.Object) map[string]any {
	fields := map[string]any{}
	done(json.Unmarshal(must(json.Marshal(object)), &fields))
	delete(fields, "kind")
	delete(fields, "apiVersion")
	return fields
}

// eventually asks until the answer is that nothing is missing.
func eventually(missing func() string) {
	start := time.Now()
	for {
		what := missing()
		if what == "" {
			return
		}
		if time.Since(start) > patience {
			fail("not in %v: %s", patience, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig of an administrator")
	form := flag.String("form", "", "the form that typed clients ask for, json or protobuf; their own choice without it")
	identity := flag.String("identity", "", "of a candidate")
	flag.Parse()
	config := must(clientcmd.BuildConfigFromFlags("", *kubeconfig))
	config.QPS = -1
	config.UserAgent = "client-go/" + flag.Arg(0)
	typed := config
	switch *form {
	case "json":
		typed = in(config, jsonForm)
	case "protobuf":
		typed = in(config, protobufForm)
	case "":
	default:
		fail("-form %s: json or protobuf", *form)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch flag.Arg(0) {
	case "informers":
		informers(ctx, typed, config)
	case "typed":
		typedClients(ctx, config)
	case "dynamic":
		dynamicClient(ctx, config)
	case "candidate":
		candidate(ctx, typed, *identity)
	default:
		fail("%q: informers, typed, dynamic or candidate", flag.Arg(0))
	}
}
