package oteltrace_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/manager/oteltrace"
	"github.com/skerry-ft/skerry/pg/dummy"
)

// A program with a provider of its own gives that; one without calls FromEnv.
func ExampleNew() {
	provider := sdk.NewTracerProvider(sdk.WithSyncer(tracetest.NewInMemoryExporter()))
	t := oteltrace.New(provider)
	cfg := manager.Config{
		ReplicaID: "replica-0", Lighthouse: []string{"127.0.0.1:29510"}, Backend: dummy.New(),
	}
	t.Trace(&cfg)
	m, err := manager.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	// … m.Run, and the training loop …
	fmt.Println(m.Close(), t.Close(context.Background()), provider.Shutdown(context.Background()))
	// Output: <nil> <nil> <nil>
}
