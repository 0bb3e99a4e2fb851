package lighthousecmd

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse"
)

// gossipKeyBytes makes AES-256.
const gossipKeyBytes = 32

// defaultLife of a CA and of what it signs: a year for the first, three months
// for the others, which are renewed by the same command.
const (
	caLife   = 365 * 24 * time.Hour
	certLife = 90 * 24 * time.Hour
)

// newCACommand makes what a guarded cluster needs, for who has no CA.
func newCACommand() *cobra.Command {
	r := request{life: certLife}
	cmd := &cobra.Command{
		Use:   "ca --role ROLE DIR NAME [HOST…]",
		Short: "Sign a certificate; make the CA, a token and a gossip key first, if DIR has none",
		Long: `Sign a certificate for the process NAME, which is reached as HOST… (names and IP
addresses; an operator needs none), as DIR/NAME.pem and DIR/NAME.key; again for a
renewal, which needs no restart. ROLE is lighthouse, replica or operator: peers check
it, so a replica's key passes for nothing else. A replica may be bound to one job.
DIR/ca.pem, DIR/ca.key, DIR/token and DIR/gossip.key are made if they are not there.
ca.key signs whoever asks: keep DIR off the machines that train. A DIR that others
can write to is refused.`,
		Example: "  lighthouse ca --role lighthouse /etc/skerry server1 server1.example.org 10.0.0.1\n" +
			"  lighthouse ca --role replica /etc/skerry replica skerry   # for all replicas, with --tls-server-name skerry\n" +
			"  lighthouse ca --role replica --job vision /etc/skerry vision skerry\n" +
			"  lighthouse ca --role operator /etc/skerry alice",
		Args:                  cli.Args,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Need(cmd, "role"); err != nil {
				return err
			}
			r.dir, r.name, r.hosts = args[0], args[1], args[2:]
			return r.sign(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.role, "role", "", "what the certificate's holder is: lighthouse, replica or operator; required")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"lighthouse", "replica", "operator"}, cobra.ShellCompDirectiveNoFileComp)) // it fails for flags that are not there
	f.StringVar(&r.job, "job", "", "the one job that a replica may have to do with; empty: all")
	f.DurationVar(&r.life, "life", certLife, "how long the certificate holds")
	return cmd
}

// request is what the command is asked for.
type request struct {
	role, job, dir, name string
	hosts                []string
	life                 time.Duration
}

// party is who the certificate is for.
func (r request) party() (guard.Party, error) {
	role, err := guard.ParseRole(r.role)
	if err == nil && r.job != "" {
		err = lighthouse.CheckJob(r.job)
	}
	return guard.Party{Role: role, Job: r.job}, err
}

func (r request) sign(w io.Writer) error {
	dir, name, life := r.dir, r.name, r.life
	party, err := r.party()
	if err != nil {
		return cli.Usage(fmt.Errorf("--%w", err))
	}
	if name != filepath.Base(name) || name == "ca" || name == "." {
		return cli.Usagef("NAME = %q, want a file name, and not ca", name)
	}
	if r.job != "" && party.Role != guard.Replica {
		return cli.Usagef("--job = %q with --role %s, want --role replica: the others serve all jobs", r.job, r.role)
	}
	if len(r.hosts) == 0 && party.Role != guard.Operator {
		return cli.Usagef("HOST is missing, want names or IP addresses under which a %s is dialled", r.role)
	}
	if life < time.Minute || life > caLife {
		return cli.Usagef("--life = %v, want %v to %v", life, time.Minute, caLife)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	authority, err := guard.OpenAuthority(dir)
	if errors.Is(err, os.ErrNotExist) {
		if authority, err = guard.NewAuthority(caLife); err == nil {
			err = authority.Write(dir)
		}
	}
	if err != nil {
		return err
	}
	pair, err := authority.Sign(guard.Request{Party: party, Name: name, Hosts: r.hosts, Life: life})
	if err != nil {
		return err
	}
	if err := pair.Write(dir, name); err != nil {
		return err
	}
	for file, secret := range map[string]guard.Secret{"token": guard.RandomSecret(), "gossip.key": gossipKey()} {
		if err := guard.WriteSecret(filepath.Join(dir, file), secret); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	path := func(file string) string { return filepath.Join(dir, file) }
	_, err = fmt.Fprintf(w, "--tls-ca %s --tls-cert %s --tls-key %s --token-file %s\n",
		path("ca.pem"), path(name+".pem"), path(name+".key"), path("token"))
	return err
}

func gossipKey() guard.Secret {
	var key [gossipKeyBytes]byte
	rand.Read(key[:]) //nolint:errcheck // documented never to fail
	return guard.NewSecret([]byte(base64.StdEncoding.EncodeToString(key[:])))
}
