// Counts numbers from two goroutines, and looks some up.
package main

import (
	"fmt"
	"log"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	counts, err := NewTable("linear_probe", 100)
	must(err)
	defer counts.Close()
	done := make(chan error)
	for _, part := range [][]uint64{{3, 1, 4, 1, 5}, {9, 2, 6, 5, 3, 5}} {
		go func(part []uint64) { done <- counts.Count(part) }(part)
	}
	must(<-done)
	must(<-done)

	wanted := []uint64{5, 7}
	times, found, err := counts.Find(wanted)
	must(err)
	for i, key := range wanted {
		fmt.Printf("%d: %s %d\n", key, map[bool]string{true: "found", false: "absent"}[found[i]], times[i])
	}
	size, err := counts.Len()
	must(err)
	fmt.Printf("%d distinct\n", size)

	if _, err := NewTable("linear_prob", 100); err != nil {
		fmt.Println(err)
	}
}
