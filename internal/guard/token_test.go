package guard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
)

// TestSecretHides: no way of printing shows the bytes.
func TestSecretHides(t *testing.T) {
	t.Parallel()
	const text = "correct-horse-battery"
	s := guard.NewSecret([]byte(text))
	holder := struct {
		S guard.Secret
		P *guard.Secret
		T *guard.Token
	}{s, &s, guard.FixedToken(s)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", &s)
	}
	fmt.Fprintln(&out, holder.S, holder.P, holder.T)
	fmt.Fprintf(&out, "%v %#v\n", holder.T, holder.T)
	if err := json.NewEncoder(&out).Encode(holder.S); err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(&out)
	log.Info().Object("secret", s).Stringer("token", holder.T).Interface("any", s).Msg("shown")
	_, err := guard.Open(guard.Options{TokenFile: writeFile(t, text+" \x01 "+text)})
	fmt.Fprintln(&out, err)
	if strings.Contains(out.String(), text) || strings.Contains(out.String(), fmt.Sprintf("%x", text)) {
		t.Errorf("the secret is shown:\n%s", out.String())
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProof(t *testing.T) {
	t.Parallel()
	s := guard.RandomSecret()
	token, other := guard.FixedToken(s), guard.FixedToken(guard.RandomSecret())
	body := []byte("drain replica-1")
	proof := token.Prove("/a/Drain", body)
	if err := token.Check(proof, "/a/Drain", body); err != nil {
		t.Errorf("a good proof: %v", err)
	}
	if strings.Contains(proof, string(s.Reveal())) {
		t.Error("the proof holds the token")
	}
	if proof == token.Prove("/a/Drain", body) {
		t.Error("two proofs are the same")
	}
	now := time.Now().UnixMilli()
	for name, err := range map[string]error{
		"another method": token.Check(proof, "/a/Evict", body),
		"another body":   token.Check(proof, "/a/Drain", []byte("drain replica-2")),
		"another token":  other.Check(proof, "/a/Drain", body),
		"no token":       guard.FixedToken(guard.Secret{}).Check(proof, "/a/Drain", body),
		"nothing":        token.Check("", "/a/Drain", body),
		"half a proof":   token.Check(proof[:len(proof)-2], "/a/Drain", body),
		"too old":        token.Check(guard.OldProof(s, "/a/Drain", now-guard.ProofAge.Milliseconds()-5000), "/a/Drain", nil),
		"of the future":  token.Check(guard.OldProof(s, "/a/Drain", now+2*guard.ProofAge.Milliseconds()), "/a/Drain", nil),
		"a wrong bearer": token.CheckAuthorization("Bearer x"),
		"basic":          token.CheckAuthorization("Basic " + string(s.Reveal())),
	} {
		if !errors.Is(err, guard.ErrDenied) {
			t.Errorf("%s: got %v, want ErrDenied", name, err)
		}
	}
	if err := token.CheckAuthorization("bearer " + string(s.Reveal())); err != nil {
		t.Errorf("the token itself: %v", err)
	}
}

// TestTokenChange: while a file holds the old and the new token, both do.
func TestTokenChange(t *testing.T) {
	t.Parallel()
	old, fresh := guard.RandomSecret(), guard.RandomSecret()
	path := writeFile(t, "# ours\n"+string(old.Reveal())+"\n")
	g, err := guard.Open(guard.Options{TokenFile: path})
	if err != nil {
		t.Fatal(err)
	}
	guard.LookAlways(g)
	accepts := func(s guard.Secret) bool { return g.Token.CheckBearer(s.Reveal()) == nil }
	write := func(lines ...guard.Secret) {
		t.Helper()
		var text []byte
		for _, l := range lines {
			text = append(append(text, l.Reveal()...), '\n')
		}
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	if !accepts(old) || accepts(fresh) {
		t.Error("at first: want the old one alone")
	}
	write(fresh, old)
	if !accepts(old) || !accepts(fresh) {
		t.Error("during the change: want both")
	}
	if err := guard.FixedToken(fresh).Check(g.Token.Prove("m", nil), "m", nil); err != nil {
		t.Errorf("the first token is not the one that is proved: %v", err)
	}
	write(fresh)
	if accepts(old) || !accepts(fresh) {
		t.Error("after the change: want the new one alone")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !accepts(fresh) {
		t.Error("a file that is gone took the token with it")
	}
}

func TestTokenFromEnv(t *testing.T) {
	t.Setenv("SKERRY_TEST_TOKEN", "0123456789abcdef\n")
	if s, err := guard.TokenFromEnv("SKERRY_TEST_TOKEN"); err != nil || !s.Matches([]byte("0123456789abcdef")) {
		t.Errorf("got %v, %v", s.IsZero(), err)
	}
	t.Setenv("SKERRY_TEST_TOKEN", "short-secret")
	if _, err := guard.TokenFromEnv("SKERRY_TEST_TOKEN"); err == nil || strings.Contains(err.Error(), "short-secret") {
		t.Errorf("got %v, want an error that does not show it", err)
	}
}

func FuzzCheckProof(f *testing.F) {
	token := guard.FixedToken(guard.NewSecret([]byte("0123456789abcdef")))
	f.Add("v2 1 00 00")
	f.Add("v2 9223372036854775807 00000000000000000000000000000000 ff")
	f.Add(token.Prove("n", nil))
	f.Add(token.ProveJoin("job", "n", nil))
	f.Add(token.Order("n", nil))
	f.Add("j2 1 00000000000000000000000000000000 00 %")
	joins := guard.JoinHolder(f, token, "job")
	f.Fuzz(func(t *testing.T, proof string) {
		if token.Check(proof, "m", nil) == nil || token.CheckJoin(proof, "", "m", nil) == nil ||
			joins.CheckJoin(proof, "job", "m", nil) == nil || joins.CheckOrder(proof, "m", nil) == nil {
			t.Fatalf("%q is taken for a proof", proof)
		}
	})
}
