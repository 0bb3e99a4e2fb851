package place

import (
	"fmt"
	"strings"
)

const firstLSFPort = 10000

// lsf is jsrun in a job of LSF.
func lsf() Launcher {
	return Launcher{
		Name:  "lsf",
		There: func(e Env) bool { return e.Var("LSB_JOBID") != "" && e.Var("JSM_NAMESPACE_RANK") != "" },
		Read: func(e Env) (Place, error) {
			r, p := &reader{env: e}, Place{Job: e.Var("LSB_JOBID")}
			r.rank(&p, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE")
			p.LocalRank = r.number(0, max(p.WorldSize, 1)-1, "JSM_NAMESPACE_LOCAL_RANK")
			hosts := r.rankFile()
			addr := ""
			if len(hosts) > 0 {
				addr, p.Nodes = hosts[0], min(len(hosts), max(p.WorldSize, 1))
				p.NodeRank = r.hostIndex(hosts)
			}
			r.master(&p, addr, firstLSFPort+lastDigits(p.Job), "MASTER_ADDR is not set, and LSB_DJOB_RANKFILE names no host")
			return r.done(p)
		},
	}
}

// rankFile is the hosts of the job, each once: the file has the host of the batch script in
// its first line, and a line for each slot behind it. Without the variable there are none.
func (r *reader) rankFile() (hosts []string) {
	path := r.env.Var("LSB_DJOB_RANKFILE")
	if path == "" {
		return nil
	}
	b, err := r.env.ReadFile(path)
	if err != nil {
		r.bad.Add(fmt.Errorf("LSB_DJOB_RANKFILE = %q: %w", clip(path), err))
		return nil
	}
	seen := make(map[string]bool)
	for i, host := range strings.Fields(string(b[:min(len(b), MaxTextBytes)])) {
		if i == 0 || seen[host] {
			continue
		}
		if !goodHost(host) {
			r.bad.Add(fmt.Errorf("LSB_DJOB_RANKFILE = %q: line %d is %q, want the name of a host", clip(path), i+1, clip(host)))
			return nil
		}
		seen[host] = true
		hosts = append(hosts, host)
	}
	return hosts
}

// hostIndex is where this host stands, by its name or the first part of it.
func (r *reader) hostIndex(hosts []string) int {
	own, err := r.env.Hostname()
	if err != nil {
		r.bad.Add(fmt.Errorf("name of this host: %w", err))
		return 0
	}
	short := func(name string) string { s, _, _ := strings.Cut(name, "."); return s }
	for i, host := range hosts {
		if host == own || short(host) == short(own) {
			return i
		}
	}
	r.bad.Add(fmt.Errorf("this host, %q, is none of the %d of LSB_DJOB_RANKFILE", clip(own), len(hosts)))
	return 0
}
