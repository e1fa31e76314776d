# SPDX-License-Identifier: BSD-3-Clause
# hold.pl - a perl program with real data in memory, for dump-pages
#
# hold.pl app|data TARGET_MIB VARIANT [AVAIL_FILE]
#
# As hold.py. `app` holds the lines and tokens of the Perl modules, scripts
# and documents of the system; `data` holds the package records of AVAIL_FILE
# as hashes.

use strict;
use warnings;
use File::Find;

my ($kind, $target, $variant, $avail) = @ARGV;
my @kept;

sub anon_mib {
	local $/ = "\n";
	open(my $status, '<', '/proc/self/status') or die "status: $!\n";
	while (<$status>) {
		return $1 / 1024 if /^RssAnon:\s+(\d+)/;
	}
	return 0;
}

sub rotate {
	my @items = @_;
	my $start = int(@items * ($variant * 5 % 13) / 13);
	return (@items[$start .. $#items], @items[0 .. $start - 1]);
}

sub hold_sources {
	my @names;
	my @roots = grep { -d } glob('/usr/share/perl* /usr/lib/*/perl*'),
		'/usr/share/doc', '/usr/share/man', '/usr/include';
	find({ no_chdir => 1, wanted => sub {
		push @names, $_ if -f && -T && -s _ < 1 << 20;
	} }, @roots);
	for my $name (rotate(sort @names)) {
		open(my $file, '<', $name) or next;
		my %module = (name => $name, stat => [stat $file]);
		while (my $line = <$file>) {
			chomp $line;
			my %entry = (number => $., text => $line,
				tokens => [split /\b/, $line]);
			push @{ $module{lines} }, \%entry;
			push @{ $module{subs}{$1} }, \%entry
				if $line =~ /^\s*sub\s+(\w+)/;
		}
		push @kept, \%module;
		last if anon_mib() >= $target;
	}
}

sub hold_records {
	local $/ = '';
	open(my $file, '<', $avail) or die "$avail: $!\n";
	seek $file, int((-s $file) * ($variant * 5 % 13) / 13), 0;
	my $number = 0;
	while (my $paragraph = <$file>) {
		my %record;
		for my $field (split /\n(?! )/, $paragraph) {
			my ($name, $text) = split /:\s*/, $field, 2;
			$record{$name} = $text if defined $text;
		}
		for my $name (qw(Depends Recommends Suggests Tag)) {
			$record{$name} = [map { [split ' '] }
				split /,/, $record{$name}]
				if defined $record{$name};
		}
		$record{words} = [split ' ', $record{Description} // '']
			if $variant % 2;
		push @kept, \%record;
		last if ++$number % 64 == 0 && anon_mib() >= $target;
	}
}

$kind eq 'app' ? hold_sources() : hold_records();
$| = 1;
print "ready\n";
1 while <STDIN>;
