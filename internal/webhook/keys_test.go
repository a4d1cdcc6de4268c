package webhook_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/internal/webhook"
)

const keyPath = "data/keys/webhook"

// start is when the tests begin.
var start = time.Unix(1_800_000_000, 0)

// newDisk gives a disk with an empty data directory.
func newDisk(t testing.TB) *dstest.Disk {
	t.Helper()
	disk := dstest.NewDisk()
	if err := disk.MkdirAll("data", 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := disk.OpenDir("/")
	if err := errors.Join(err, root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
	return disk
}

func openKeys(t testing.TB, fs vfs.FS) *webhook.Keys {
	t.Helper()
	keys, err := webhook.OpenKeys(fs, keyPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func keyID(t testing.TB, keys *webhook.Keys, now time.Time) string {
	t.Helper()
	kid, err := keys.KeyID(now)
	if err != nil {
		t.Fatal(err)
	}
	return kid
}

// rotate replaces the keys at once.
func rotate(t testing.TB, fs vfs.FS, now time.Time) string { return rotateAfter(t, fs, now, 0) }

func rotateAfter(t testing.TB, fs vfs.FS, now time.Time, wait time.Duration) string {
	t.Helper()
	kid, err := webhook.Rotate(fs, keyPath, now, wait)
	if err != nil {
		t.Fatal(err)
	}
	return kid
}

// content gives the text of the key file.
func content(t testing.TB, fs vfs.FS) []byte {
	t.Helper()
	f, err := fs.Open(keyPath)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

type jwk struct{ Kty, Crv, Kid, Use, Alg, X string }

func jwks(t testing.TB, keys *webhook.Keys, now time.Time) (doc []byte, set []jwk) {
	t.Helper()
	doc, err := keys.JWKS(now)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct{ Keys []jwk }
	if err := json.Unmarshal(doc, &parsed); err != nil {
		t.Fatal(err)
	}
	return doc, parsed.Keys
}

func ids(set []jwk) (kids []string) {
	for _, key := range set {
		kids = append(kids, key.Kid)
	}
	return kids
}

var headerForm = regexp.MustCompile(`^t=(\d+),kid=(ds_[A-Za-z0-9_-]{43}),ed25519=([A-Za-z0-9_-]{86})$`)

// verifies checks a signature as a receiver does.
func verifies(t testing.TB, header string, body []byte, set []jwk) bool {
	t.Helper()
	parts := headerForm.FindStringSubmatch(header)
	if parts == nil {
		t.Fatalf("the header is %q", header)
	}
	i := slices.IndexFunc(set, func(key jwk) bool { return key.Kid == parts[2] })
	if i < 0 {
		return false
	}
	public, err := base64.RawURLEncoding.DecodeString(set[i].X)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.Verify(public, []byte(parts[1]+"."+string(body)), signature)
}

func sign(t testing.TB, keys *webhook.Keys, body []byte, now time.Time) string {
	t.Helper()
	header, err := keys.Sign(body, now)
	if err != nil {
		t.Fatal(err)
	}
	return header
}

func TestSignature(t *testing.T) {
	keys := openKeys(t, newDisk(t))
	doc, set := jwks(t, keys, start)
	want := []jwk{{Kty: "OKP", Crv: "Ed25519", Kid: keyID(t, keys, start), Use: "sig", Alg: "EdDSA", X: set[0].X}}
	if !slices.Equal(set, want) {
		t.Errorf("the JWK Set is %s", doc)
	}
	for _, body := range []string{"", "{}", "{\"a\":\"\u00e4\"}", "\x00\xff\r\n"} {
		header := sign(t, keys, []byte(body), start)
		if !strings.HasPrefix(header, "t=1800000000,") {
			t.Errorf("signed at another time: %q", header)
		}
		if !verifies(t, header, []byte(body), set) {
			t.Errorf("the signature of %q is wrong", body)
		}
		if verifies(t, header, []byte(body+" "), set) || verifies(t, strings.Replace(header, "t=18", "t=19", 1), []byte(body), set) {
			t.Errorf("the signature of %q is right for something else", body)
		}
	}
}

// The example of RFC 8037, appendix A.3.
func TestKeyIDIsTheThumbprint(t *testing.T) {
	public, err := base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := webhook.KeyIDOf(public), "ds_kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("the id is %s, want %s", got, want)
	}
}

func TestSignatureByNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed; TestSignature verifies the same with Go's library")
	}
	keys := openKeys(t, newDisk(t))
	body := []byte(`{"subscription_id":"ü","wake_id":"w_1"}`)
	header := sign(t, keys, body, start)
	for _, sent := range [][]byte{body, append([]byte(" "), body...)} {
		doc, _ := jwks(t, keys, start)
		input, err := json.Marshal(map[string]any{"header": header, "body": sent, "jwks": json.RawMessage(doc)})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), node, "testdata/verify.mjs")
		cmd.Stdin = bytes.NewReader(input)
		out, err := cmd.CombinedOutput()
		if good := err == nil; good != bytes.Equal(sent, body) {
			t.Errorf("node says %v about %q: %s", err, sent, out)
		}
	}
}

func TestKeysAreMadeOnFirstNeedAndKept(t *testing.T) {
	disk := newDisk(t)
	keys := openKeys(t, disk)
	if names := disk.Files("data"); len(names) > 0 {
		t.Fatalf("opening has made %q", names)
	}
	kid := keyID(t, keys, start)
	if again := keyID(t, openKeys(t, disk.Crash(nil, dstest.Loss{})), start); again != kid {
		t.Errorf("after a power cut the key is %s, was %s", again, kid)
	}
	// Two that open before there is a key agree on one.
	disk = newDisk(t)
	one, two := openKeys(t, disk), openKeys(t, disk)
	if a, b := keyID(t, one, start), keyID(t, two, start); a != b {
		t.Errorf("two keys in one file: %s, %s", a, b)
	}
	if names := disk.Files("data/keys"); !slices.Equal(names, []string{"webhook", "webhook.lock"}) {
		t.Errorf("the folder has %q", names)
	}
}

func TestKeyFileIsForItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "webhook")
	keys, err := webhook.OpenKeys(vfs.Default, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has rights %o, want %o", name, got, want)
			}
		}
	}
	first := keyID(t, keys, start)
	check()
	if second, err := webhook.Rotate(vfs.Default, path, start, 0); err != nil || second == first {
		t.Fatalf("rotated from %s to %s, %v", first, second, err)
	}
	check()
}

func TestRotation(t *testing.T) {
	disk := newDisk(t)
	keys := openKeys(t, disk)
	body := []byte("{}")
	old := sign(t, keys, body, start)
	oldID := keyID(t, keys, start)
	seed := regexp.MustCompile(`(?m)^sign (\S+)$`).FindSubmatch(content(t, disk))[1]

	newID := rotate(t, disk, start)
	if bytes.Contains(content(t, disk), seed) {
		t.Error("the old signing key is still in the file")
	}
	if got := keyID(t, keys, start.Add(time.Second-1)); got != oldID {
		t.Errorf("noticed %s within a second: the file is read too often", got)
	}
	noticed := start.Add(time.Second)
	if got := keyID(t, keys, noticed); got != newID {
		t.Fatalf("the server signs with %s, want %s", got, newID)
	}
	_, set := jwks(t, keys, noticed)
	if !slices.Equal(ids(set), []string{newID, oldID}) {
		t.Errorf("published are %q", ids(set))
	}
	if !verifies(t, old, body, set) || !verifies(t, sign(t, keys, body, noticed), body, set) {
		t.Error("a signature cannot be verified any more")
	}
	for after, want := range map[time.Duration]int{webhook.KeepPublished - time.Second: 2, webhook.KeepPublished: 1} {
		if _, set := jwks(t, keys, start.Add(after)); len(set) != want {
			t.Errorf("%v after a rotation %q are published, want %d", after, ids(set), want)
		}
	}
	// What has been dropped from the set goes from the file with the next rotation.
	third := rotate(t, disk, start.Add(webhook.KeepPublished))
	_, set = jwks(t, openKeys(t, disk), start.Add(webhook.KeepPublished))
	if !slices.Equal(ids(set), []string{third, newID}) {
		t.Errorf("published are %q, want %q", ids(set), []string{third, newID})
	}
	if n := bytes.Count(content(t, disk), []byte("\npublished ")); n != 1 {
		t.Errorf("the file has %d published keys", n)
	}
}

// A receiver that keeps the key set, and a cache between that keeps it as long, know a
// new key before anything is signed with it.
func TestAnnouncedRotation(t *testing.T) {
	const kept = 5 * time.Minute // max-age of the set
	disk := newDisk(t)
	keys, body := openKeys(t, disk), []byte("{}")
	first := keyID(t, keys, start)
	second := rotateAfter(t, disk, start, webhook.Announce)
	takeover := start.Add(webhook.Announce)
	for at := start; at.Before(takeover.Add(webhook.KeepPublished + time.Minute)); at = at.Add(30 * time.Second) {
		fresh := openKeys(t, disk) // as after a restart
		for name, k := range map[string]*webhook.Keys{"running": keys, "restarted": fresh} {
			known, want := start, first
			if at.Sub(start) > 2*kept {
				known = at.Add(-2 * kept)
			}
			if !at.Before(takeover) {
				want = second
			}
			if got := keyID(t, k, at.Add(time.Second)); got != want {
				t.Fatalf("%s, %v after the rotation: signs with %s, want %s", name, at.Sub(start), got, want)
			}
			if _, set := jwks(t, openKeys(t, disk), known); !verifies(t, sign(t, k, body, at), body, set) {
				t.Fatalf("%s, %v after the rotation: who has had the key set for %v cannot verify", name, at.Sub(start), 2*kept)
			}
		}
	}
	for after, want := range map[time.Duration][]string{
		0: {first, second}, webhook.Announce - time.Second: {first, second}, webhook.Announce: {second, first},
		webhook.Announce + webhook.KeepPublished - time.Second: {second, first}, webhook.Announce + webhook.KeepPublished: {second},
	} {
		if _, set := jwks(t, openKeys(t, disk), start.Add(after)); !slices.Equal(ids(set), want) {
			t.Errorf("%v after the rotation %q are published, want %q", after, ids(set), want)
		}
	}

	// A rotation during the wait takes the place of the key that has not signed yet.
	third := rotateAfter(t, disk, takeover, webhook.Announce)
	fourth := rotateAfter(t, disk, takeover.Add(time.Minute), webhook.Announce)
	if _, set := jwks(t, openKeys(t, disk), takeover.Add(time.Minute)); !slices.Equal(ids(set), []string{second, fourth, first}) {
		t.Errorf("published are %q, want %q", ids(set), []string{second, fourth, first})
	}
	// And one at once does so as well, and keeps what has signed.
	fifth := rotate(t, disk, takeover.Add(2*time.Minute))
	if _, set := jwks(t, openKeys(t, disk), takeover.Add(2*time.Minute)); !slices.Equal(ids(set), []string{fifth, first, second}) {
		t.Errorf("published are %q, want %q without %s", ids(set), []string{fifth, first, second}, third)
	}
}

func TestRotationIsBounded(t *testing.T) {
	disk := newDisk(t)
	keyID(t, openKeys(t, disk), start)
	for range 32 {
		rotate(t, disk, start)
	}
	before := content(t, disk)
	if _, err := webhook.Rotate(disk, keyPath, start, 0); err == nil {
		t.Error("rotated without end")
	}
	if !bytes.Equal(content(t, disk), before) {
		t.Error("a refused rotation changed the file")
	}
	rotate(t, disk, start.Add(webhook.KeepTokens))
}

func TestRotateNeedsAFile(t *testing.T) {
	disk := newDisk(t)
	if _, err := webhook.Rotate(disk, "data/other/webhook", start, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rotated nothing: %v", err)
	}
	if names := disk.Files("data"); len(names) > 0 {
		t.Errorf("it has made %q", names)
	}
}

func TestRotateWaitsForNobody(t *testing.T) {
	disk := newDisk(t)
	kid := keyID(t, openKeys(t, disk), start)
	lock, err := disk.Lock(keyPath + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := webhook.Rotate(disk, keyPath, start, 0); err == nil {
		t.Error("rotated while another process held the lock")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if got := keyID(t, openKeys(t, disk), start); got != kid {
		t.Errorf("the key is %s, was %s", got, kid)
	}
	rotate(t, disk, start)
}

func TestTheFileIsReadOnceASecond(t *testing.T) {
	disk := newDisk(t)
	keys := openKeys(t, disk)
	keyID(t, keys, start)
	reads := 0
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "open" {
			reads++
		}
		return nil
	})
	for i := range 50 {
		sign(t, keys, nil, start.Add(time.Duration(i)*100*time.Millisecond))
	}
	if reads != 4 {
		t.Errorf("the file was read %d times in 5 seconds", reads)
	}
	reads = 0
	sign(t, keys, nil, start.Add(-time.Hour)) // the clock was set back
	if reads != 1 {
		t.Error("the file is not looked at until the clock has caught up")
	}
}

func TestDamagedKeysAreRefused(t *testing.T) {
	disk := newDisk(t)
	keyID(t, openKeys(t, disk), start)
	rotate(t, disk, start)
	whole := content(t, disk)
	refused := func(text []byte, what string) {
		t.Helper()
		disk.Edit(keyPath, func([]byte) []byte { return slices.Clone(text) })
		if _, err := webhook.OpenKeys(disk, keyPath, nil); !errors.Is(err, webhook.ErrKeysDamaged) && !errors.Is(err, webhook.ErrKeysVersion) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := webhook.Rotate(disk, keyPath, start, 0); err == nil {
			t.Errorf("%s: rotated", what)
		}
		if !bytes.Equal(content(t, disk), text) {
			t.Fatalf("%s: the file was changed", what)
		}
	}
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 1
		refused(flipped, "a wrong bit in byte "+string(whole[max(0, i-5):i+1]))
		refused(whole[:i:i], "shortened")
	}
	refused(append(slices.Clone(whole), '\n'), "longer")
	refused(append(slices.Clone(whole), whole...), "twice")
	refused(bytes.Repeat([]byte{0}, 1<<20), "zeros")
	disk.Edit(keyPath, func([]byte) []byte { return bytes.Replace(whole, []byte("keys 1"), []byte("keys 2"), 1) })
	if _, err := webhook.OpenKeys(disk, keyPath, nil); !errors.Is(err, webhook.ErrKeysVersion) {
		t.Errorf("a file of another version: %v", err)
	}
}

// A file that cannot be read while the server runs is reported, once, and the keys go
// on; the file is taken again when it is whole.
func TestDamageWhileRunning(t *testing.T) {
	disk := newDisk(t)
	var log bytes.Buffer
	keys, err := webhook.OpenKeys(disk, keyPath, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	kid := keyID(t, keys, start)
	whole := content(t, disk)
	log.Reset()
	now := start
	later := func() time.Time { now = now.Add(time.Second); return now }
	disk.Edit(keyPath, func(text []byte) []byte { return text[:40] })
	for range 3 {
		if got := keyID(t, keys, later()); got != kid {
			t.Fatalf("the key is %s, was %s", got, kid)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("reported %d times:\n%s", n, &log)
	}
	if err := disk.Remove(keyPath); err != nil {
		t.Fatal(err)
	}
	if got := keyID(t, keys, later()); got != kid {
		t.Errorf("a removed file changed the key to %s", got)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("the missing file was not reported:\n%s", &log)
	}
	f, err := disk.Create(keyPath, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(slices.Clone(whole)); err != nil {
		t.Fatal(err)
	}
	next := rotate(t, disk, now)
	if got := keyID(t, keys, later()); got != next {
		t.Errorf("the key is %s after the file was restored and rotated, want %s", got, next)
	}
	if strings.Contains(log.String(), "sign ") {
		t.Error("a key is in the log")
	}
}

// A cut at any call while keys are made and replaced leaves the old or the new ones,
// and what was used before the cut is there after it.
func TestPowerCuts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	type cut struct {
		disk   *dstest.Disk
		before string // the key in use, if any
	}
	disk := newDisk(t)
	var cuts []cut
	inUse := ""
	look := func() {
		for _, loss := range []dstest.Loss{{}, {Keep: 50}, {Keep: 50, Tear: true}, {Keep: 100}} {
			cuts = append(cuts, cut{disk.Crash(r, loss), inUse})
		}
	}
	disk.OnOp(func(op dstest.Op) error {
		if op.Changes() {
			look()
		}
		return nil
	})
	kids := map[string]string{} // by the key in use before
	kids[""] = keyID(t, openKeys(t, disk), start)
	inUse = kids[""]
	look()
	kids[inUse] = rotate(t, disk, start)
	disk.OnOp(nil)
	inUse = kids[inUse]
	look()
	for _, c := range cuts {
		kid := keyID(t, openKeys(t, c.disk), start)
		if c.before != "" && kid != c.before && kid != kids[c.before] {
			t.Errorf("after a cut the key is %s, was %s", kid, c.before)
		}
	}
}

// A call that fails while keys are made or replaced is an error, and the next try
// succeeds with keys that are durable.
func TestFailingDisk(t *testing.T) {
	for _, name := range []string{"create", "mkdir", "dir", "write", "sync", "rename"} {
		for nth := range 5 {
			disk := newDisk(t)
			failing := func() {
				left := nth
				disk.OnOp(func(op dstest.Op) error {
					if op.Name == name {
						if left--; left == -1 {
							return syscall.EIO
						}
					}
					return nil
				})
			}
			durable := func(kid string) {
				t.Helper()
				disk.OnOp(nil)
				if got := keyID(t, openKeys(t, disk.Crash(nil, dstest.Loss{})), start); got != kid {
					t.Errorf("%s %d: the key after a power cut is %s, was %s", name, nth, got, kid)
				}
			}
			failing()
			keys := openKeys(t, disk)
			_, err := keys.KeyID(start)
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Errorf("%s %d: %v", name, nth, err)
			}
			kid := keyID(t, keys, start)
			durable(kid)

			failing()
			if _, err = webhook.Rotate(disk, keyPath, start, 0); err != nil && !errors.Is(err, syscall.EIO) {
				t.Errorf("%s %d: %v", name, nth, err)
			}
			disk.OnOp(nil)
			durable(keyID(t, keys, start.Add(2*time.Second)))
			if slices.Contains(disk.Files("data/keys"), "webhook.new") {
				t.Errorf("%s %d: a file is left over", name, nth)
			}
		}
	}
}

func TestKeysAreSafeForManyGoroutines(t *testing.T) {
	disk := newDisk(t)
	keys := openKeys(t, disk)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 50 {
				now := start.Add(time.Duration(n) * time.Second)
				header, err := keys.Sign([]byte("{}"), now)
				if err != nil {
					t.Error(err)
					return
				}
				if _, set := jwks(t, keys, now); !verifies(t, header, []byte("{}"), set) {
					t.Error("a signature that the key set does not know")
				}
				if i == 0 && n%10 == 0 {
					if _, err := webhook.Rotate(disk, keyPath, now, 0); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
}

func FuzzKeyFile(f *testing.F) {
	disk := newDisk(f)
	keyID(f, openKeys(f, disk), start)
	f.Add(content(f, disk))
	rotate(f, disk, start)
	rotate(f, disk, start)
	f.Add(content(f, disk))
	rotateAfter(f, disk, start, webhook.Announce)
	f.Add(content(f, disk))
	f.Add([]byte("ds webhook keys 1\nsign a b c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		again, err := webhook.RecodeKeys(text)
		if err == nil && !bytes.Equal(again, text) {
			t.Fatalf("%q was read as %q", text, again)
		}
		if err != nil && !errors.Is(err, webhook.ErrKeysDamaged) && !errors.Is(err, webhook.ErrKeysVersion) {
			t.Fatal(err)
		}
	})
}
