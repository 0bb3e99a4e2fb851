package place

import (
	"fmt"
	"strconv"
	"strings"
)

// hostsFile is where the kubelet writes the full name of a pod that has a subdomain.
const hostsFile = "/etc/hosts"

// Kubernetes is an indexed Job, or a JobSet, of one process a pod. Kubernetes sets
// JOB_COMPLETION_INDEX alone; the manifest sets
//
//	WORLD_SIZE                            the completions of the Job; of a JobSet those of all Jobs
//	JOBSET_NAME, JOB_INDEX, PODS_PER_JOB  of a JobSet whose Jobs make one world: its name, the label
//	                                      jobset.sigs.k8s.io/job-index, and the completions of each Job
//
// A JobSet in which each Job is a replica of its own leaves out the second line. The
// master is the pod of index 0 (of Job 0): the pod has a subdomain, which is a headless
// service, and the kubelet writes its full name to /etc/hosts; or the manifest sets
// MASTER_ADDR.
func Kubernetes() Launcher {
	return Launcher{
		Name:  "kubernetes",
		There: func(e Env) bool { return e.Var("JOB_COMPLETION_INDEX") != "" },
		Read: func(e Env) (Place, error) {
			r, p := &reader{env: e}, Place{Job: e.Var("JOBSET_NAME"), LocalSize: 1}
			p.WorldSize = r.number(1, MaxWorldSize, "WORLD_SIZE")
			most := max(p.WorldSize, 1) - 1
			index := r.number(0, most, "JOB_COMPLETION_INDEX")
			p.Rank = index
			suffix, first := "-"+strconv.Itoa(index), "-0"
			if p.Job != "" {
				job, pods := r.number(0, most, "JOB_INDEX"), max(r.number(1, most+1, "PODS_PER_JOB"), 1)
				p.Rank = job*pods + index
				r.bad.Want(index < pods, "JOB_COMPLETION_INDEX", index, "0 to PODS_PER_JOB-1, %d", pods-1)
				r.bad.Want(p.Rank <= most, "JOB_INDEX", job, "at most %d, for %d pods of %d each", most/pods, most+1, pods)
				suffix, first = fmt.Sprintf("-%d-%d", job, index), "-0-0"
			}
			p.Nodes, p.NodeRank = p.WorldSize, p.Rank
			r.kubernetesMaster(&p, suffix, first)
			return r.done(p)
		},
	}
}

// kubernetesMaster finds the pod of index 0 by the name of this one, which ends with its
// suffix.
func (r *reader) kubernetesMaster(p *Place, suffix, first string) {
	host, err := r.env.Hostname()
	name, ok := strings.CutSuffix(host, suffix)
	if err == nil && ok && p.Job == "" {
		p.Job = name
	}
	addr := ""
	if ok && r.env.Var("MASTER_ADDR") == "" {
		if domain := r.domainOf(host); domain != "" {
			addr = name + first + domain
		}
	}
	r.master(p, addr, 0, fmt.Sprintf("MASTER_ADDR is not set, and %s has no full name of a pod %q whose name ends with %q; "+
		"want a headless service that is the pod's subdomain, or MASTER_ADDR", hostsFile, clip(host), suffix))
}

// domainOf is what follows a host's name in its full name, from the dot on; "" if the hosts
// file has none.
func (r *reader) domainOf(host string) string {
	b, err := r.env.ReadFile(hostsFile)
	if err != nil || len(b) > MaxTextBytes {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		for _, name := range strings.Fields(line) {
			if domain, ok := strings.CutPrefix(name, host+"."); ok && goodHost(name) {
				return "." + domain
			}
		}
	}
	return ""
}
