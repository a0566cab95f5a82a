// Verify a whole log with the packages that the go command checks its checksum database with.
//
// Usage: verify URL VERIFIER [KEPT]...
//
// KEPT is a checkpoint of the log that was saved earlier, or a tlog-proof named DIGEST.tlog-proof.
// It prints the size of the log, or the first contradiction and fails.
package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// tiles reads the tiles of the log at an address. It keeps them, because each proof needs some.
type tiles struct {
	url  string
	kept map[string][]byte
}

func (t tiles) Height() int                     { return 8 }
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	found := make([][]byte, len(wanted))
	for i, tile := range wanted {
		// Go names the height in its paths, and entries "data".
		path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
		path = strings.Replace(path, "/data/", "/entries/", 1)
		if t.kept[path] == nil {
			t.kept[path] = get(t.url + "/" + path)
		}
		found[i] = t.kept[path]
	}
	return found, nil
}

func main() {
	log.SetFlags(0)
	url, kept := os.Args[1], os.Args[3:]
	verifier := must(note.NewVerifier(os.Args[2]))
	tree := open(get(url+"/checkpoint"), verifier)
	reader := tiles{url, map[string][]byte{}}
	hashes := tlog.TileHashReader(tree, reader)
	for number, entry := range entries(reader, tree.N) {
		n, leaf := int64(number), tlog.RecordHash(entry)
		stored := must(hashes.ReadHashes([]int64{tlog.StoredHashIndex(0, n)}))
		if stored[0] != leaf {
			log.Fatalf("entry %d is not the one in the tiles", n)
		}
		check(tlog.CheckRecord(must(tlog.ProveRecord(tree.N, n, hashes)), tree.N, tree.Hash, n, leaf))
	}
	for _, file := range kept {
		old := openKept(file, verifier)
		check(tlog.CheckTree(must(tlog.ProveTree(tree.N, old.N, hashes)), tree.N, tree.Hash, old.N, old.Hash))
	}
	fmt.Println(tree.N)
}

// entries reads every bundle: each entry comes after its length in two bytes.
func entries(reader tiles, size int64) (found [][]byte) {
	for first := int64(0); first < size; first += 256 {
		tile := tlog.Tile{H: 8, L: -1, N: first / 256, W: int(min(size-first, 256))}
		bundle := must(reader.ReadTiles([]tlog.Tile{tile}))[0]
		for len(bundle) > 0 {
			end := 2 + int(bundle[0])<<8 + int(bundle[1])
			found, bundle = append(found, bundle[2:end]), bundle[end:]
		}
	}
	if int64(len(found)) != size {
		log.Fatalf("%d entries in a log of %d", len(found), size)
	}
	return found
}

// open returns the tree of a checkpoint that the log has signed.
func open(text []byte, verifier note.Verifier) tlog.Tree {
	signed := must(note.Open(text, note.VerifierList(verifier)))
	origin, rest, _ := strings.Cut(signed.Text, "\n")
	if origin != verifier.Name() {
		log.Fatalf("a checkpoint of %s", origin)
	}
	// Go's own logs all have this origin, and its parser knows no other.
	return must(tlog.ParseTree([]byte("go.sum database tree\n" + rest)))
}

// openKept returns the tree of a kept checkpoint, or of a kept proof after checking that.
func openKept(file string, verifier note.Verifier) tlog.Tree {
	text := must(os.ReadFile(file))
	digest, isProof := strings.CutSuffix(filepath.Base(file), ".tlog-proof")
	if !isProof {
		return open(text, verifier)
	}
	head, checkpoint, _ := bytes.Cut(text, []byte("\n\n"))
	tree := open(checkpoint, verifier)
	lines := strings.Split(string(head), "\n")
	var index int64
	must(fmt.Sscanf(lines[2], "index %d", &index))
	var proof tlog.RecordProof
	for _, line := range lines[3:] {
		proof = append(proof, must(tlog.ParseHash(line)))
	}
	leaf := tlog.RecordHash(must(hex.DecodeString(digest)))
	check(tlog.CheckRecord(proof, tree.N, tree.Hash, index, leaf))
	return tree
}

func get(address string) []byte {
	response := must(http.Get(address))
	if response.StatusCode != http.StatusOK {
		log.Fatalf("%s: %s", address, response.Status)
	}
	return must(io.ReadAll(response.Body))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
