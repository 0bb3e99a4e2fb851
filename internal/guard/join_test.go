package guard_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/skerry-ft/skerry/internal/guard"
)

// TestJoinToken: its holder proves joins of its job, to who holds the operators' token
// or the same one, and nothing else to anybody.
func TestJoinToken(t *testing.T) {
	t.Parallel()
	operators := guard.FixedToken(guard.RandomSecret())
	vision, text := guard.JoinHolder(t, operators, "vision"), guard.JoinHolder(t, operators, "text")
	alien := guard.JoinHolder(t, guard.FixedToken(guard.RandomSecret()), "vision")
	if got := vision.Job() + operators.Job(); got != "vision" {
		t.Errorf("jobs %q, want vision of the join token alone", got)
	}
	body := []byte("hello")
	proof := vision.ProveJoin("vision", "/Session", body)
	for name, err := range map[string]error{
		"to an operator":            operators.CheckJoin(proof, "vision", "/Session", body),
		"to an operator of any job": operators.CheckJoin(proof, "", "/Session", body),
		"to a fellow":               vision.CheckJoin(proof, "vision", "/Session", body),
		"by an operator":            vision.CheckJoin(operators.ProveJoin("vision", "/Session", body), "vision", "/Session", body),
		"the operators' own":        operators.CheckJoin(operators.Prove("/Session", body), "vision", "/Session", body),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	forged := strings.Replace(text.ProveJoin("text", "/Session", body), " text", " vision", 1)
	for name, err := range map[string]error{
		"as the operators'":            operators.Check(proof, "/Session", body),
		"of another job":               operators.CheckJoin(text.ProveJoin("text", "/Session", body), "vision", "/Session", body),
		"of another job, by its name":  operators.CheckJoin(forged, "", "/Session", body),
		"to another job's":             text.CheckJoin(proof, "", "/Session", body),
		"of another operators' token":  operators.CheckJoin(alien.ProveJoin("vision", "/Session", body), "vision", "/Session", body),
		"for another method":           operators.CheckJoin(proof, "vision", "/Evict", body),
		"for another body":             operators.CheckJoin(proof, "vision", "/Session", nil),
		"the operators' to a replica":  vision.CheckJoin(operators.Prove("/Session", body), "vision", "/Session", body),
		"as an order":                  vision.CheckOrder(proof, "/Session", body),
		"an order as a join":           vision.CheckJoin(operators.Order("/Session", body), "vision", "/Session", body),
		"an order as the operators'":   operators.Check(operators.Order("/Session", body), "/Session", body),
		"as a bearer":                  operators.CheckBearer([]byte("skerry-join-1:vision:00")),
		"nothing, of another's job":    operators.CheckJoin(vision.ProveJoin("text", "/Session", body), "", "/Session", body),
		"what has no token derived it": second(guard.FixedToken(guard.Secret{}).JoinTokens("vision")),
	} {
		if !errors.Is(err, guard.ErrDenied) {
			t.Errorf("%s: %v, want ErrDenied", name, err)
		}
	}
	if p := vision.Prove("/Evict", nil) + vision.Order("/Evict", nil) + vision.Login(); p != "" {
		t.Errorf("a join token proves %q, want nothing of the operators'", p)
	}
	if _, err := vision.JoinTokens("text"); err == nil || !strings.Contains(err.Error(), `of job "vision"`) {
		t.Errorf("a join token of a join token: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestOrder: who holds no more than a join token checks that an order is an
// operator's, and cannot give one.
func TestOrder(t *testing.T) {
	t.Parallel()
	operators := guard.FixedToken(guard.RandomSecret())
	replica := guard.JoinHolder(t, operators, "vision")
	order := operators.Order("/Kill@a:1", []byte("why"))
	if err := replica.CheckOrder(order, "/Kill@a:1", []byte("why")); err != nil {
		t.Errorf("an operator's order: %v", err)
	}
	for name, err := range map[string]error{
		"for another replica":   replica.CheckOrder(order, "/Kill@b:1", []byte("why")),
		"with another body":     replica.CheckOrder(order, "/Kill@a:1", nil),
		"of another operator":   replica.CheckOrder(guard.FixedToken(guard.RandomSecret()).Order("/Kill@a:1", nil), "/Kill@a:1", nil),
		"none":                  replica.CheckOrder("", "/Kill@a:1", nil),
		"a proof":               replica.CheckOrder(operators.Prove("/Kill@a:1", nil), "/Kill@a:1", nil),
		"cut":                   replica.CheckOrder(order[:len(order)-2], "/Kill@a:1", []byte("why")),
		"a fellow's join":       replica.CheckOrder(replica.ProveJoin("vision", "/Kill@a:1", nil), "/Kill@a:1", nil),
		"to the operators' own": operators.CheckOrder(order, "/Kill@a:1", []byte("why")), // they check the proof
	} {
		if !errors.Is(err, guard.ErrDenied) {
			t.Errorf("%s: %v, want ErrDenied", name, err)
		}
	}
}

// TestJoinTokenFiles: its form tells it from an operators' one, its derivation is
// always the same, and it changes with the operators'.
func TestJoinTokenFiles(t *testing.T) {
	t.Parallel()
	fresh, old := "fresh-0123456789abcdef", "old-0123456789abcdef"
	operators, err := guard.Open(guard.Options{TokenFile: writeFile(t, fresh+"\n"+old+"\n")})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := operators.Token.JoinTokens("vision")
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d join tokens, %v; want one for each line", len(lines), err)
	}
	again := guard.FixedToken(guard.NewSecret([]byte(old)))
	derived, err := again.JoinTokens("vision")
	if err != nil || !derived[0].Equal(lines[1]) || derived[0].Equal(lines[0]) {
		t.Errorf("the old token's join token is another one: %v", err)
	}
	file := string(lines[0].Reveal()) + "\n# until all have the new one\n" + string(lines[1].Reveal()) + "\n"
	replica, err := guard.Open(guard.Options{TokenFile: writeFile(t, file)})
	if err != nil || replica.Token.Job() != "vision" || replica.IsZero() {
		t.Fatalf("a file of join tokens: job %q, %v", replica.Token.Job(), err)
	}
	if err := guard.JoinHolder(t, again, "vision").CheckJoin(replica.Token.ProveJoin("vision", "m", nil), "vision", "m", nil); err == nil {
		t.Error("the file's second line is proved, want its first")
	}
	if err := replica.Token.CheckJoin(again.ProveJoin("vision", "m", nil), "vision", "m", nil); err != nil {
		t.Errorf("while the token is changed, the old one: %v", err)
	}
	if err := replica.Token.CheckOrder(again.Order("m", nil), "m", nil); err != nil {
		t.Errorf("while the token is changed, the old one's order: %v", err)
	}
	other, err := operators.Token.JoinTokens("text")
	if err != nil {
		t.Fatal(err)
	}
	one := string(lines[0].Reveal())
	for name, tc := range map[string]struct{ text, want string }{
		"both kinds": {one + "\n" + old, `the operators' token beside a join token of job "vision"`},
		"two jobs":   {one + "\n" + string(other[0].Reveal()), `jobs "vision" and "text", want those of one`},
		"cut":        {one[:len(one)-1], "hex digits, want 128"},
		"no job":     {strings.Replace(one, "vision", "", 1), "whose job, of 0 bytes, is no name"},
		"no keys":    {"skerry-join-1:vision", "0 hex digits, want 128"},
	} {
		if _, err := guard.Open(guard.Options{TokenFile: writeFile(t, tc.text)}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		} else if len(one) > 40 && strings.Contains(err.Error(), one[30:40]) {
			t.Errorf("%s: the error shows the keys: %v", name, err)
		}
	}
	if _, err := guard.Open(guard.Options{Token: guard.NewSecret([]byte(one[:40]))}); err == nil {
		t.Error("half a join token from the environment is taken")
	}
}

// TestProofsOfACall: of two proofs each side finds the one that it can check, and a
// call is bound by the proof that let it through.
func TestProofsOfACall(t *testing.T) {
	t.Parallel()
	token := guard.FixedToken(guard.RandomSecret())
	operators := &guard.Guard{Token: token}
	vision, text := &guard.Guard{Token: guard.JoinHolder(t, token, "vision")}, &guard.Guard{Token: guard.JoinHolder(t, token, "text")}
	join := func(g *guard.Guard, job string) string { return g.Token.ProveJoin(job, "m", nil) }
	const junk = "v2 1 00000000000000000000000000000000 00"
	for _, tc := range []struct {
		name   string
		to     *guard.Guard
		job    string
		proofs []string
		ok     bool
	}{
		{"both, to an operator", operators, "vision", []string{token.Prove("m", nil), join(operators, "vision")}, true},
		{"both, to a replica", vision, "vision", []string{token.Prove("m", nil), join(operators, "vision")}, true},
		{"both, to a replica of another job", text, "text", []string{token.Prove("m", nil), join(operators, "vision")}, false},
		{"a join", vision, "vision", []string{join(vision, "vision")}, true},
		{"none", vision, "vision", nil, false},
		{"the third of three", vision, "vision", []string{junk, junk, join(vision, "vision")}, false},
		{"the first of any job", operators, "", []string{join(vision, "vision"), junk}, true},
		{"the second of any job", operators, "", []string{junk, join(vision, "vision")}, false},
		{"a false one of another job first", operators, "", []string{strings.Replace(join(vision, "vision"), " vision", " text", 1), join(vision, "vision")}, false},
	} {
		md := metadata.MD{guard.ProofMetadata: tc.proofs}
		ctx := peer.NewContext(metadata.NewIncomingContext(t.Context(), md), &peer.Peer{})
		err := tc.to.CheckJoin(ctx, tc.job, "m", nil)
		if tc.ok != (err == nil) || err != nil && !errors.Is(err, guard.ErrDenied) {
			t.Errorf("%s: %v, want allowed %v", tc.name, err, tc.ok)
		}
		if got := guard.JobOf(ctx); err == nil && tc.job == "" && got != "vision" {
			t.Errorf("%s: bound to %q, want vision", tc.name, got)
		}
		if err := tc.to.CheckToken(ctx, "m", nil); (err == nil) != (tc.to == operators && len(tc.proofs) > 0 && tc.name == "both, to an operator") {
			t.Errorf("%s, as an operator's: %v", tc.name, err)
		}
	}
}

// TestJoinTokenFromEnv: the variable takes either kind.
func TestJoinTokenFromEnv(t *testing.T) {
	lines, err := guard.FixedToken(guard.RandomSecret()).JoinTokens("vision")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(guard.EnvToken, string(lines[0].Reveal()))
	var o guard.Options
	if err := o.FromEnv(); err != nil {
		t.Fatal(err)
	}
	g, err := guard.Open(o)
	if err != nil || g.Token.Job() != "vision" {
		t.Errorf("job %q, %v; want vision", g.Token.Job(), err)
	}
}
