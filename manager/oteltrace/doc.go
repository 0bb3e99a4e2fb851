// Package oteltrace shows the steps of a Manager as OpenTelemetry traces: each attempt at a
// step is a trace, with what the replica did in it.
//
//	t, err := oteltrace.FromEnv(ctx)   // off unless an OTLP endpoint is set
//	defer t.Close(ctx)
//	t.Trace(&cfg)
//	m, err := manager.New(cfg)
//
//	step                   from the end of the attempt before to its own
//	 ├─ join               from the wish for a quorum to the answer: the lighthouse's decision, with its reason
//	 ├─ configure          the process group of a new quorum
//	 ├─ copy, heal         a state that came, with its bytes
//	 ├─ all-reduce, …      each collective, with its bytes
//	 └─ ballot             what the replicas exchange at the end
//
// Losses, falls of the quorum and the like are events of the step in which they were seen.
// A join has the decision in it: the lighthouse keeps no trace of its own. Spans carry
// skerry.job and skerry.replica.
//
// FromEnv reads the usual variables: OTEL_EXPORTER_OTLP_ENDPOINT or _TRACES_ENDPOINT turns it
// on, OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf or grpc, and OTEL_SDK_DISABLED,
// OTEL_TRACES_EXPORTER, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_BSP_* and the rest of OTEL_EXPORTER_OTLP_* mean what they mean elsewhere. A collector
// that is away costs training nothing: spans are sent beside it, and dropped when the queue
// is full; the SDK writes of it on standard error.
//
// A Tracer is safe for concurrent use, and traces one Manager.
package oteltrace
