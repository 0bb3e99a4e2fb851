package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// monitoringObject checks an object of Prometheus' operator by its types and their own checks.
func monitoringObject(text []byte, kind string) error {
	switch kind {
	case monitoring.ServiceMonitorsKind:
		var m monitoring.ServiceMonitor
		if err := yaml.UnmarshalStrict(text, &m); err != nil {
			return err
		}
		err := selects(m.Spec.Selector)
		for i := range m.Spec.Endpoints {
			e := &m.Spec.Endpoints[i]
			if problem := endpoint(e.Scheme, e.HTTPConfigWithProxyAndTLSFiles.Validate(), e.Interval, e.ScrapeTimeout); problem != nil {
				err = errors.Join(err, fmt.Errorf("spec.endpoints[%d]: %w", i, problem))
			}
		}
		return err
	case monitoring.PodMonitorsKind:
		var m monitoring.PodMonitor
		if err := yaml.UnmarshalStrict(text, &m); err != nil {
			return err
		}
		err := selects(m.Spec.Selector)
		for i := range m.Spec.PodMetricsEndpoints {
			e := &m.Spec.PodMetricsEndpoints[i]
			if problem := endpoint(e.Scheme, e.HTTPConfigWithProxy.Validate(), e.Interval, e.ScrapeTimeout); problem != nil {
				err = errors.Join(err, fmt.Errorf("spec.podMetricsEndpoints[%d]: %w", i, problem))
			}
		}
		return err
	default:
		return fmt.Errorf("kind %q of Prometheus' operator: no rules for it; add them to test/deploy/validate/monitors.go", kind)
	}
}

func selects(s metav1.LabelSelector) error {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err == nil && selector.Empty() {
		err = errors.New("it is empty, which takes all of the namespace")
	}
	if err != nil {
		return fmt.Errorf("spec.selector: %w", err)
	}
	return nil
}

// prometheusDuration is the form that the operator's own schema demands.
var prometheusDuration = regexp.MustCompile(`^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$`)

// endpoint checks what the types leave to the schema of the cluster: values out of a list, and
// durations.
func endpoint(scheme *monitoring.Scheme, err error, durations ...monitoring.Duration) error {
	if known := []monitoring.Scheme{"http", "https", "HTTP", "HTTPS"}; scheme != nil && !slices.Contains(known, *scheme) {
		err = errors.Join(err, fmt.Errorf("scheme: %q, want one of %q", *scheme, known))
	}
	for _, d := range durations {
		if !prometheusDuration.MatchString(string(d)) {
			err = errors.Join(err, fmt.Errorf("duration %q, want one such as 30s or 1m", d))
		}
	}
	return err
}
