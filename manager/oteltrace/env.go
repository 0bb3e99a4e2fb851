package oteltrace

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// serviceName is what the service is called if OTEL_SERVICE_NAME does not say.
const serviceName = "skerry-replica"

// The variables that are read here; the SDK and the exporters read all others.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// FromEnv makes a Tracer as the environment says, nil where it wants none: a nil Tracer
// does nothing. It connects to nothing yet.
func FromEnv(ctx context.Context) (*Tracer, error) {
	endpoint := cmp.Or(os.Getenv(envTracesEndpoint), os.Getenv(envEndpoint))
	if endpoint == "" || strings.EqualFold(os.Getenv(envDisabled), "true") {
		return nil, nil
	}
	switch exporter := os.Getenv(envExporter); exporter {
	case "", "otlp":
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("%s = %q, want otlp or none", envExporter, exporter)
	}
	exporter, err := exporterFor(ctx, cmp.Or(os.Getenv(envTracesProtocol), os.Getenv(envProtocol)))
	if err != nil {
		return nil, err
	}
	of, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", serviceName)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read the OTEL_ variables of the resource: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(of))
	t := New(provider)
	t.shutdown = provider.Shutdown
	return t, nil
}

// exporterFor makes the exporter of a protocol; "" is http/protobuf, as the specification has it.
func exporterFor(ctx context.Context, protocol string) (sdk.SpanExporter, error) {
	var exporter sdk.SpanExporter
	var err error
	switch protocol {
	case "", "http/protobuf":
		exporter, err = otlptracehttp.New(ctx)
	case "grpc":
		exporter, err = otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s = %q, want http/protobuf or grpc", envProtocol, protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	return exporter, nil
}
