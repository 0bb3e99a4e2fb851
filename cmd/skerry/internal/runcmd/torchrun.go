package runcmd

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// torchrunNames are torchrun's names of flags of skerry run.
var torchrunNames = map[string]string{
	"nproc-per-node": "nproc-per-replica",
	"rdzv-id":        "job",
	"rdzv-endpoint":  "lighthouse",
}

// torchrunRefused are torchrun's flags that mean nothing here, and what to do.
var torchrunRefused = map[string]string{
	"rdzv-backend":             "leave it out: the lighthouse is the rendezvous",
	"rdzv-conf":                "leave it out: the lighthouse is the rendezvous; its timeouts are skerry job config's",
	"local-addr":               "set SKERRY_ADVERTISE: what peers dial",
	"master-addr":              "leave it out: each replica's store is this command's, on loopback",
	"master-port":              "leave it out: each replica's store is this command's, on a free port",
	"monitor-interval":         "leave it out: the end of a rank is known at once",
	"start-method":             "leave it out: each rank is a process of its own",
	"event-log-handler":        "leave it out: --log-level says what is told, --report FILE what was",
	"logs-specs":               "use --log-dir and --tee",
	"redirects":                "use --log-dir",
	"local-ranks-filter":       "use --log-dir, which has a file for each rank",
	"duplicate-stdout-filters": "use --log-dir --tee",
	"duplicate-stderr-filters": "use --log-dir --tee",
	"run-path":                 "leave it out: a COMMAND that ends in .py is run by python, in a process of its own",
	"role":                     "leave it out: all ranks have the role default",
	"numa-binding":             "give the whole command: -- numactl … python train.py",
}

// refused is the value of a flag that is taken for a better error than "unknown flag".
type refused struct{ given bool }

// String implements pflag.Value.
func (r *refused) String() string { return "" }

// Type implements pflag.Value.
func (r *refused) Type() string { return "string" }

// Set implements pflag.Value.
func (r *refused) Set(string) error {
	r.given = true
	return nil
}

// addTorchrun has a command take torchrun's names of flags, with underscores, too.
func addTorchrun(cmd *cobra.Command) {
	f := cmd.Flags()
	for name := range torchrunRefused {
		f.Var(&refused{}, name, "")
		f.Lookup(name).Hidden = true
		f.Lookup(name).NoOptDefVal = "true" // some of them have no value
	}
	f.Bool("standalone", false, "torchrun's word for a job without --lighthouse")
	f.Lookup("standalone").Hidden = true
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.ReplaceAll(name, "_", "-")
		if ours, ok := torchrunNames[name]; ok {
			name = ours
		}
		return pflag.NormalizedName(name)
	})
}

// rankList is a value of torchrun's --tee and --redirects.
var rankList = regexp.MustCompile(`^[0-9]+(:[0-9]+)?(,[0-9]+(:[0-9]+)?)*$`)

// nodes is the value of --nnodes: torchrun's may be a range, which is taken for a better error,
// of torchrunOnly.
type nodes struct {
	n      *int
	ranges string // what was given, if that is a range
}

// String implements pflag.Value.
func (v *nodes) String() string {
	if v.n == nil { // pflag asks a zero one for its default
		return ""
	}
	return strconv.Itoa(*v.n)
}

// Type implements pflag.Value.
func (*nodes) Type() string { return "int" }

// Set implements pflag.Value.
func (v *nodes) Set(text string) (err error) {
	low, high, ranged := strings.Cut(text, ":")
	v.ranges = ""
	if ranged {
		v.ranges = text
	}
	if *v.n, err = strconv.Atoi(low); err == nil && ranged {
		_, err = strconv.Atoi(high)
	}
	return err
}

// teeOfRanks is the usage error of --tee with torchrun's value, which is taken for the command.
func teeOfRanks(cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("tee") || !rankList.MatchString(args[0]) || len(args) < 2 {
		return nil
	}
	return cli.Usagef("COMMAND = %q behind --tee, which has no value here: want --log-dir DIR --tee -- %s", args[0], args[1])
}

// torchrunOnly is the usage error of flags that are torchrun's alone.
func torchrunOnly(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if r, ok := f.Value.(*refused); ok && r.given && err == nil {
			err = cli.Usagef("--%s is torchrun's and means nothing here: %s", f.Name, torchrunRefused[f.Name])
		}
	})
	if n, ok := cmd.Flags().Lookup("nnodes").Value.(*nodes); ok && n.ranges != "" && err == nil {
		err = cli.Usagef("--nnodes = %q, want one number, the hosts that the job has at most: replicas come and go by themselves", n.ranges)
	}
	if standalone, ferr := cmd.Flags().GetBool("standalone"); err == nil && ferr == nil && standalone && cmd.Flags().Changed("lighthouse") {
		err = cli.Usagef("--standalone with --lighthouse: want one of them")
	}
	return err
}
