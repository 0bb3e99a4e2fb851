package connect

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// completeWithin is what a person who has pressed Tab waits for at most.
const completeWithin = time.Second

// completed asks the lighthouse for names; there are none where it does not answer.
func (l *Flags) completed(cmd *cobra.Command, names func(api.Overview) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	st, _, err := l.Overview(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return offered(names(st)), cobra.ShellCompDirectiveNoFileComp
}

// offered are the names, each with a description after a tab or without, that a shell can
// take as they are. The scripts of bash, zsh and fish do not quote in every case what they
// put on a command line, and a replica names itself: one called $(reboot) is left out, and
// a user who means it writes it, quoted.
func offered(names []string) []string {
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(s string) bool {
		name, _, _ := strings.Cut(s, "\t")
		return !plain(name)
	})
	for i, s := range names {
		if name, told, _ := strings.Cut(s, "\t"); !plain(told) {
			names[i] = name
		}
	}
	return slices.Compact(names)
}

// plain tells a word that means itself in every shell, and is no flag: letters and digits,
// and after the first of them some signs.
func plain(word string) bool {
	for i, r := range word {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_':
		case i > 0 && strings.ContainsRune("-.:/@+,", r):
		default:
			return false
		}
	}
	return word != ""
}

// CompleteJobs completes the one argument JOB.
func (l *Flags) CompleteJobs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return l.completed(cmd, jobNames)
}

// CompleteReplicas completes the one argument REPLICA, of the job that a flag may name.
func (l *Flags) CompleteReplicas(job *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return l.completed(cmd, func(st api.Overview) (names []string) {
			for _, j := range st.Jobs {
				for _, r := range j.Replicas {
					if j.Job == *job || *job == "" {
						names = append(names, Short(r.ReplicaID)+"\t"+r.State)
					}
				}
			}
			return names
		})
	}
}

// AddJob gives a command the flag --job.
func (l *Flags) AddJob(cmd *cobra.Command, job *string, def, help string) {
	cmd.Flags().StringVar(job, "job", def, help)
	complete := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return l.completed(cmd, jobNames)
	}
	_ = cmd.RegisterFlagCompletionFunc("job", complete) // it fails for flags that are not there
}

func jobNames(st api.Overview) (names []string) {
	for _, j := range st.Jobs {
		names = append(names, j.Job)
	}
	return names
}
