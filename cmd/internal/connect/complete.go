package connect

import (
	"context"
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
	return names(st), cobra.ShellCompDirectiveNoFileComp
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
