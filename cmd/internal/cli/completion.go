package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// newCompletion prints what makes a shell complete the commands of a root, its flags
// and, where a command asks for it, what is there at that moment.
func newCompletion(root *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion",
		Short: "Print a script by which bash, zsh or fish completes commands, flags, replicas and jobs",
		Example: "  source <(" + root.Name() + " completion bash)\n" +
			"  " + root.Name() + ` completion zsh > "${fpath[1]}/_` + root.Name() + "\"\n" +
			"  " + root.Name() + " completion fish > ~/.config/fish/completions/" + root.Name() + ".fish",
	}
	for shell, write := range map[string]func(io.Writer) error{
		"bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":  root.GenZshCompletion,
		"fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	} {
		cmd.AddCommand(&cobra.Command{
			Use:   shell,
			Short: "Print the script for " + shell,
			Args:  Args,
			RunE:  func(cmd *cobra.Command, _ []string) error { return write(cmd.OutOrStdout()) },
		})
	}
	return cmd
}
