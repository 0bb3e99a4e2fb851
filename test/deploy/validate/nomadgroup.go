package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// operators are those of a constraint.
var operators = []string{
	"=", "==", "is", "!=", "not", "<", "<=", ">", ">=",
	api.ConstraintDistinctHosts, api.ConstraintDistinctProperty, api.ConstraintRegex, api.ConstraintVersion, api.ConstraintSemver,
	api.ConstraintSetContains, api.ConstraintSetContainsAll, api.ConstraintSetContainsAny, api.ConstraintAttributeIsSet, api.ConstraintAttributeIsNotSet,
}

func constraints(all []*api.Constraint) (err error) {
	for i, c := range all {
		if !slices.Contains(operators, c.Operand) {
			err = errors.Join(err, fmt.Errorf("constraint %d: operator %q, want one of %q", i, c.Operand, operators))
		}
	}
	return err
}

// nomadGroup checks a group: the names in it that stand for others, ports and times.
func nomadGroup(g *api.TaskGroup) error {
	err := errors.Join(constraints(g.Constraints), restart(g.RestartPolicy))
	if *g.Count < 0 {
		err = errors.Join(err, fmt.Errorf("count: %d, want 0 or more", *g.Count))
	}
	ports, problem := portsOf(g)
	err = errors.Join(err, problem)
	for name, v := range g.Volumes {
		if v.Type != "host" && v.Type != "csi" || v.Source == "" {
			err = errors.Join(err, fmt.Errorf("volume %q: type %q, source %q: want type host or csi, and a source", name, v.Type, v.Source))
		}
	}
	for _, s := range g.Services {
		if problem := service(s, ports); problem != nil {
			err = errors.Join(err, fmt.Errorf("service %q: %w", s.Name, problem))
		}
	}
	if len(g.Tasks) == 0 {
		err = errors.Join(err, errors.New("no task"))
	}
	for _, t := range g.Tasks {
		if problem := task(t, g, ports); problem != nil {
			err = errors.Join(err, fmt.Errorf("task %q: %w", t.Name, problem))
		}
	}
	return err
}

// portsOf are the labels of a group's ports.
func portsOf(g *api.TaskGroup) (labels []string, err error) {
	for _, n := range g.Networks {
		if modes := []string{"", "none", "bridge", "host"}; !slices.Contains(modes, n.Mode) && !strings.HasPrefix(n.Mode, "cni/") {
			err = errors.Join(err, fmt.Errorf("network: mode %q, want one of %q", n.Mode, modes[1:]))
		}
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			if p.Value < 0 || p.Value > 65535 || p.To < -1 || p.To > 65535 {
				err = errors.Join(err, fmt.Errorf("port %q: static = %d, to = %d, want 65535 at most", p.Label, p.Value, p.To))
			}
			if slices.Contains(labels, p.Label) {
				err = errors.Join(err, fmt.Errorf("port %q: two have this label", p.Label))
			}
			labels = append(labels, p.Label)
		}
	}
	return labels, err
}

func restart(r *api.RestartPolicy) error {
	if r == nil {
		return nil
	}
	var err error
	if *r.Mode != "fail" && *r.Mode != "delay" {
		err = fmt.Errorf("restart: mode %q, want fail or delay", *r.Mode)
	}
	if *r.Interval < 5*time.Second || time.Duration(*r.Attempts)**r.Delay > *r.Interval {
		err = errors.Join(err, fmt.Errorf("restart: interval %v, want 5s at least, and room for %d attempts with a delay of %v", *r.Interval, *r.Attempts, *r.Delay))
	}
	return err
}

func service(s *api.Service, ports []string) (err error) {
	if s.PortLabel != "" && !slices.Contains(ports, s.PortLabel) {
		err = fmt.Errorf("port %q, want one of the group's, %q", s.PortLabel, ports)
	}
	if s.Provider != "nomad" && s.Provider != "consul" {
		err = errors.Join(err, fmt.Errorf("provider %q, want nomad or consul", s.Provider))
	}
	kinds := []string{"http", "tcp"}
	if s.Provider == "consul" {
		kinds = append(kinds, "grpc", "script")
	}
	for i, c := range s.Checks {
		if !slices.Contains(kinds, c.Type) {
			err = errors.Join(err, fmt.Errorf("check %d: type %q, want one of %q", i, c.Type, kinds))
		}
		if c.Type == "http" && !strings.HasPrefix(c.Path, "/") {
			err = errors.Join(err, fmt.Errorf("check %d: path %q, want one such as /healthz", i, c.Path))
		}
		if c.Interval < time.Second || c.Timeout < time.Second {
			err = errors.Join(err, fmt.Errorf("check %d: interval %v, timeout %v, want 1s at least", i, c.Interval, c.Timeout))
		}
	}
	return err
}

func task(t *api.Task, g *api.TaskGroup, ports []string) error {
	err := errors.Join(constraints(t.Constraints), restart(t.RestartPolicy))
	if t.Driver != "docker" {
		err = errors.Join(err, fmt.Errorf("driver %q: only the options of docker are known; add others to test/deploy/validate/nomad.go", t.Driver))
	}
	if t.Config == nil {
		err = errors.Join(err, errors.New("no config"))
	}
	if labels, ok := t.Config["ports"].([]string); ok {
		for _, label := range labels {
			if !slices.Contains(ports, label) {
				err = errors.Join(err, fmt.Errorf("config: port %q, want one of the group's, %q", label, ports))
			}
		}
	}
	for _, m := range t.VolumeMounts {
		if m.Volume == nil || m.Destination == nil || g.Volumes[*m.Volume] == nil {
			err = errors.Join(err, errors.New("volume_mount: want a volume of the group, and a destination"))
		}
	}
	if *t.KillTimeout <= 0 {
		err = errors.Join(err, fmt.Errorf("kill_timeout: %v, want more than 0", *t.KillTimeout))
	}
	return err
}
