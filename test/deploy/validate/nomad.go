package main

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/nomad/api"
)

// runtimeNames are what the client fills in when a task starts: texts for the parser.
var runtimeNames = regexp.MustCompile(`\$\{(?:NOMAD_\w+|(?:attr|node|meta|env|device)\.[^}]+)\}`)

// nomadFile decodes a job strictly into the types of Nomad's API, and checks what its server
// checks and the types do not say.
func nomadFile(text []byte, name string) error {
	text = runtimeNames.ReplaceAllFunc(text, func(b []byte) []byte { return append([]byte("$"), b...) })
	file, problems := hclparse.NewParser().ParseHCL(text, name)
	if problems.HasErrors() {
		return problems
	}
	content, problems := file.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "job", LabelNames: []string{"name"}}}})
	if problems.HasErrors() {
		return problems
	}
	if len(content.Blocks) != 1 {
		return fmt.Errorf("%d blocks job, want one", len(content.Blocks))
	}
	job := api.Job{ID: &content.Blocks[0].Labels[0]}
	if problems := nomadDecoder(true).DecodeBody(content.Blocks[0].Body, nil, &job); problems.HasErrors() {
		return problems
	}
	job.Canonicalize()
	return nomadJob(&job)
}

// nomadDecoder decodes what the types of the API cannot say for themselves.
func nomadDecoder(tasks bool) *gohcl.Decoder {
	d := new(gohcl.Decoder)
	d.RegisterExpressionDecoder(reflect.TypeFor[time.Duration](), decodeDuration)
	d.RegisterExpressionDecoder(reflect.TypeFor[*time.Duration](), decodeDuration)
	d.RegisterBlockDecoder(reflect.TypeFor[api.Constraint](), decodeConstraint)
	if tasks {
		d.RegisterBlockDecoder(reflect.TypeFor[api.Task](), decodeTask)
	}
	return d
}

func decodeDuration(x hcl.Expression, ctx *hcl.EvalContext, to any) hcl.Diagnostics {
	var text string
	if problems := gohcl.DecodeExpression(x, ctx, &text); problems.HasErrors() {
		return problems
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Not a duration", Detail: err.Error(), Subject: x.Range().Ptr()}}
	}
	switch to := to.(type) {
	case *time.Duration:
		*to = v
	case **time.Duration:
		*to = &v
	}
	return nil
}

// decodeConstraint takes the short forms of a constraint as well.
func decodeConstraint(body hcl.Body, ctx *hcl.EvalContext, to any) hcl.Diagnostics {
	var c struct {
		Attribute        string `hcl:"attribute,optional"`
		Operator         string `hcl:"operator,optional"`
		Value            string `hcl:"value,optional"`
		DistinctHosts    bool   `hcl:"distinct_hosts,optional"`
		DistinctProperty string `hcl:"distinct_property,optional"`
	}
	problems := gohcl.DecodeBody(body, ctx, &c)
	switch {
	case c.DistinctHosts:
		c.Operator = api.ConstraintDistinctHosts
	case c.DistinctProperty != "":
		c.Operator, c.Attribute = api.ConstraintDistinctProperty, c.DistinctProperty
	case c.Operator == "":
		c.Operator = "="
	}
	*to.(*api.Constraint) = api.Constraint{LTarget: c.Attribute, Operand: c.Operator, RTarget: c.Value}
	return problems
}

// dockerConfig are options of a task by driver docker, as its documentation names them
// (https://developer.hashicorp.com/nomad/docs/job-declare/task-driver/docker): the simple ones.
type dockerConfig struct {
	Image          string   `hcl:"image"`
	Args           []string `hcl:"args,optional"`
	Command        string   `hcl:"command,optional"`
	Entrypoint     []string `hcl:"entrypoint,optional"`
	NetworkMode    string   `hcl:"network_mode,optional"`
	Ports          []string `hcl:"ports,optional"`
	Volumes        []string `hcl:"volumes,optional"`
	WorkDir        string   `hcl:"work_dir,optional"`
	CapAdd         []string `hcl:"cap_add,optional"`
	CapDrop        []string `hcl:"cap_drop,optional"`
	ReadonlyRootfs bool     `hcl:"readonly_rootfs,optional"`
	Privileged     bool     `hcl:"privileged,optional"`
	Init           bool     `hcl:"init,optional"`
	ForcePull      bool     `hcl:"force_pull,optional"`
	Runtime        string   `hcl:"runtime,optional"`
	IpcMode        string   `hcl:"ipc_mode,optional"`
	ShmSize        int64    `hcl:"shm_size,optional"`
	SecurityOpt    []string `hcl:"security_opt,optional"`
}

// decodeTask has the block config, which is the driver's, decoded by what the driver takes.
func decodeTask(body hcl.Body, ctx *hcl.EvalContext, to any) hcl.Diagnostics {
	task := to.(*api.Task)
	own, rest, problems := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "config"}}})
	if problems.HasErrors() {
		return problems
	}
	problems = nomadDecoder(false).DecodeBody(rest, ctx, task)
	for _, b := range own.Blocks {
		var c dockerConfig
		problems = append(problems, gohcl.DecodeBody(b.Body, ctx, &c)...)
		task.Config = map[string]any{"image": c.Image, "ports": c.Ports}
	}
	return problems
}

// nomadJob checks a job by the documentation of its blocks
// (https://developer.hashicorp.com/nomad/docs/job-specification).
func nomadJob(job *api.Job) error {
	var all error
	if len(job.Datacenters) == 0 || len(job.TaskGroups) == 0 {
		all = errors.New("no datacenters, or no group: want one at least of each")
	}
	all = errors.Join(all, constraints(job.Constraints))
	seen := make(map[string]bool)
	for _, g := range job.TaskGroups {
		err := nomadGroup(g)
		if seen[*g.Name] {
			err = errors.Join(err, errors.New("two groups have this name"))
		}
		seen[*g.Name] = true
		if err != nil {
			all = errors.Join(all, fmt.Errorf("group %q: %w", *g.Name, err))
		}
	}
	return all
}
