module example.org/numbers

go 1.19
