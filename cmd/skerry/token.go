package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
)

// newTokenCommand derives join tokens.
func newTokenCommand() *cobra.Command {
	var o guard.Options
	var job string
	cmd := &cobra.Command{
		Use:   "token --job NAME",
		Short: "Print a token that lets replicas join one job, and do nothing else",
		Long: `Print the join token of a job, one line for each operators' token in the file, in its order: what replicas of that
job are given as SKERRY_TOKEN_FILE in place of the operators' token. With it they join, beat and speak to each other;
the lighthouse refuses it for other jobs, and to drain, evict, kill and configure. It is derived from the operators'
token and the job's name, so it needs no lighthouse, prints the same each time, and is changed with the operators' token.`,
		Example: "  (umask 077; skerry token --job vision --token-file /etc/skerry/token > /etc/skerry/vision.token)",
		Args:    cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := wire.CheckJob(job)
			if err != nil {
				return cli.Usagef("--%w", err)
			}
			if err := o.FromEnv(); err != nil {
				return err
			}
			if err := guardflags.Check(&o); err != nil {
				return err
			}
			g, err := guard.Open(guard.Options{TokenFile: o.TokenFile, Token: o.Token}) // certificates are not needed
			if err != nil {
				return err
			}
			if g.Token.IsZero() {
				return cli.Usagef("no operators' token: name its file by --token-file (%s), or set %s", guard.EnvTokenFile, guard.EnvToken)
			}
			tokens, err := g.Token.JoinTokens(name)
			if err != nil {
				return err
			}
			for _, t := range tokens {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", t.Reveal()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&job, "job", wire.DefaultJob, "the job that may be joined")
	f.StringVar(&o.TokenFile, "token-file", "", "file of the operators' token ("+guard.EnvTokenFile+", or the token itself in "+guard.EnvToken+")")
	return cmd
}
