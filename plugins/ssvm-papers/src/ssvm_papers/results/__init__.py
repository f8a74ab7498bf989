"""What experiments find: statements with their rules, stored results, pages of them and quotes from these pages."""
